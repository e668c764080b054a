"""``ray``: the points of a comparison as tasks on a Ray cluster.

    elbowroom compare digits --vary process=gaussian,masked --launcher ray --jobs 8
    elbowroom compare ... --launcher '{name: ray, address: "ray-head:6379", gpus: 1}'

Needs the extra ``elbowroom[ray]``, elbowroom on every node, and the comparison's folder under the
same path on all of them. A task runs the point as a subprocess.

When a worker or its node fails, Ray runs the task again elsewhere (``retries`` times) and the point
resumes from its last checkpoint. A point whose worker was killed may still be saving: it holds a
lock that the next attempt waits for, so there are never two of them in one folder.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
from attrs.validators import ge, optional
from elbowroom import ElbowroomError, hookimpl
from elbowroom.files import take_lock
from elbowroom.plugins.launchers.launcher import ENDS_WITH_INPUT, Ended, Job, Launcher

_TICK = 0.5  # seconds between progress events
_PATIENCE = 600.0  # seconds for an earlier attempt to save a checkpoint
_LOST = -9  # the code of a job whose workers were killed in all attempts


@hookimpl
def launchers() -> Mapping[str, str]:
    """``ray``."""
    return {"ray": "elbowroom.contrib.ray_launcher:Ray"}


@attrs.frozen(kw_only=True)
class Ray(Launcher):
    """Tasks on the cluster at ``address`` (default: a running one, else a local one is started).

    ``cpus``, ``gpus`` and ``resources`` are those of each point.
    """

    address: str | None = None
    cpus: float = attrs.field(default=1.0, validator=ge(0))
    gpus: float = attrs.field(default=0.0, validator=ge(0))
    resources: Mapping[str, float] = attrs.Factory(dict)
    retries: int = attrs.field(default=3, validator=ge(0))
    threads: int | None = attrs.field(default=None, validator=optional(ge(1)))

    def run(self, jobs: Sequence[Job], at_once: int) -> Iterator[Ended | None]:
        ray = _connected(self.address)
        task = ray.remote(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            resources=dict(self.resources),
            max_retries=self.retries,
        )(run_job)
        waiting, running = deque(jobs), dict[Any, Job]()
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    job = waiting.popleft()
                    running[self._submit(task, job)] = job
                done, _ = ray.wait(list(running), num_returns=1, timeout=_TICK)
                for reference in done:
                    job = running.pop(reference)
                    yield Ended(job.name, _code(ray, reference, job))
                if not done:
                    yield None
        finally:
            _stop(ray, running)

    def _submit(self, task: Any, job: Job) -> Any:
        job.output.parent.mkdir(parents=True, exist_ok=True)
        threads = self.threads or max(1, int(self.cpus))
        return task.options(name=f"elbowroom {job.name}").remote(
            job.command, str(job.output.resolve()), str(Path.cwd()), threads
        )


# -- on the cluster


def run_job(command: Sequence[str], output: str, folder: str, threads: int) -> int:
    """Run ``python *command`` as a subprocess; returns its exit code."""
    environment = {"OMP_NUM_THREADS": str(threads), **os.environ, ENDS_WITH_INPUT: "1"}
    with lock_of(Path(output)).open("w") as lock, Path(output).open("ab") as printed:
        take_lock(lock, _PATIENCE)  # an earlier attempt may still be saving
        process = subprocess.Popen(  # noqa: S603  # this interpreter and our command
            [sys.executable, *command],
            cwd=folder if Path(folder).is_dir() else None,
            stdin=subprocess.PIPE,  # closed when we end, which stops the job
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            pass_fds=[lock.fileno()],  # held until the last process ends
        )
        try:
            return _waited(process)
        except BaseException:  # cancelled: the point saves a checkpoint
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise


def _waited(process: subprocess.Popen[bytes]) -> int:
    while True:  # in short waits: Ray cancels by an exception between two of them
        with suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=0.2)


def lock_of(output: Path) -> Path:
    """The file that is locked while a job with this output runs."""
    return output.with_name(f".{output.name}.lock")


# -- here


def _connected(address: str | None) -> Any:
    try:
        import ray
    except ImportError as error:
        raise ElbowroomError(
            "launcher 'ray' needs the package 'ray': pip install 'elbowroom[ray]'"
        ) from error
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ElbowroomError(
                f"launcher.address: no Ray cluster at {address!r}: {error}"
            ) from error
    return ray


def _code(ray: Any, reference: Any, job: Job) -> int:
    try:
        return int(ray.get(reference))
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines()
        with suppress(OSError), job.output.open("a", encoding="utf-8") as output:
            output.write(f"{type(error).__name__}: {lines[-1] if lines else ''}\n")
        return _LOST


def _stop(ray: Any, running: Mapping[Any, Job]) -> None:
    """Stop running jobs and wait for them; kill them if the wait is interrupted."""
    try:
        _each(running, lambda reference: ray.cancel(reference, force=False))
        for job in running.values():
            with suppress(OSError), lock_of(job.output).open("w") as lock:
                take_lock(lock, _PATIENCE)
    except BaseException:
        _each(running, lambda reference: ray.cancel(reference, force=True))
        raise


def _each(running: Mapping[Any, Job], do: Callable[[Any], None]) -> None:
    for reference in running:
        with suppress(ValueError):  # already finished
            do(reference)
