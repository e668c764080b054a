"""``submitit``: the points of a comparison as jobs of a SLURM cluster.

    elbowroom compare digits --vary process=gaussian,masked --launcher submitit --jobs 8
    elbowroom compare ... --launcher '{name: submitit, minutes: 720, gpus: 1, partition: gpu}'

Needs the extra ``elbowroom[submitit]``, and a folder shared by all nodes. The command runs on the
login node. A job runs its point as a subprocess. When SLURM preempts it or its time is over,
submitit submits the job again, and the point resumes from its last checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
from attrs.validators import ge
from elbowroom import ElbowroomError, hookimpl
from elbowroom.plugins.launchers.launcher import ENDS_WITH_INPUT, Ended, Job, Launcher

_TICK = 0.5  # seconds between progress events
_LOST = -9  # the code of a job without a result


@hookimpl
def launchers() -> Mapping[str, str]:
    """``submitit``."""
    return {"submitit": "elbowroom.contrib.submitit_launcher:Submitit"}


@attrs.frozen(kw_only=True)
class Submitit(Launcher):
    """Jobs of at most ``minutes``, each with ``cpus`` and ``gpus``.

    ``parameters`` are other parameters of submitit, like ``slurm_account``.
    """

    cluster: str | None = None  # slurm, local or debug; None: slurm if available, else local
    minutes: int = attrs.field(default=1440, validator=ge(1))
    cpus: int = attrs.field(default=1, validator=ge(1))
    gpus: int = attrs.field(default=0, validator=ge(0))
    partition: str | None = None
    parameters: Mapping[str, Any] = attrs.Factory(dict)

    def run(self, jobs: Sequence[Job], at_once: int) -> Iterator[Ended | None]:
        waiting, running = deque(jobs), dict[str, Any]()
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    job = waiting.popleft()
                    running[job.name] = self._submit(job)
                over = [name for name, submitted in running.items() if submitted.done()]
                for name in over:
                    yield Ended(name, _code(running.pop(name)))
                if not over:
                    yield None
                    time.sleep(_TICK)
        finally:
            _stop(running)

    def _submit(self, job: Job) -> Any:
        job.output.parent.mkdir(parents=True, exist_ok=True)
        executor = self._executor(job.output.parent / "submitit")
        return executor.submit(
            run_job, job.command, str(job.output.resolve()), str(Path.cwd()), self.cpus
        )

    def _executor(self, folder: Path) -> Any:
        try:
            import submitit
        except ImportError as error:
            raise ElbowroomError(
                "launcher 'submitit' needs the package 'submitit': pip install "
                "'elbowroom[submitit]'"
            ) from error
        executor = submitit.AutoExecutor(folder, cluster=self.cluster)
        named = {} if self.partition is None else {"slurm_partition": self.partition}
        executor.update_parameters(
            timeout_min=self.minutes,
            cpus_per_task=self.cpus,
            gpus_per_node=self.gpus,
            **named,
            **self.parameters,
        )
        return executor


# -- on a node


class _Point:
    """Runs a point; submitted again by submitit when SLURM preempts it."""

    def __call__(self, command: Sequence[str], output: str, folder: str, threads: int) -> int:
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ, ENDS_WITH_INPUT: "1"}
        with Path(output).open("ab") as printed:
            process = subprocess.Popen(  # noqa: S603  # this interpreter and our command
                [sys.executable, *command],
                cwd=folder,
                stdin=subprocess.PIPE,  # closed when we end, which stops the job
                stdout=printed,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
            try:
                return process.wait()
            except BaseException:  # cancelled: the point saves a checkpoint
                process.send_signal(signal.SIGTERM)
                process.wait()
                raise

    def checkpoint(self, *arguments: Any) -> Any:
        """The call that submitit submits again."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, *arguments)


run_job = _Point()


# -- here


def _code(submitted: Any) -> int:
    try:
        return int(submitted.result())
    except Exception:  # killed, or its result is lost; see submitit's logs
        return _LOST


def _stop(running: Mapping[str, Any]) -> None:
    """Cancel running jobs and wait until they have saved a checkpoint."""
    for submitted in running.values():
        with suppress(Exception):
            submitted.cancel()
    for submitted in running.values():
        while not submitted.done():
            time.sleep(_TICK)
