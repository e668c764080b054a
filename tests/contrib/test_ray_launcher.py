"""The Ray launcher on a local cluster of two workers, one of them killed on the way."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from elbowroom.contrib.ray_launcher import Ray
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.conformance import check_launcher
from elbowroom.plugins.launchers.launcher import Ended, Job

try:
    import ray
except ImportError:
    ray = None

pytestmark = pytest.mark.extra
needs_ray = pytest.mark.skipif(ray is None, reason="the extra elbowroom[ray] is not installed")


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "ray", None)
    job = Job("one", ("-c", ""), tmp_path / "output.txt")
    with pytest.raises(ElbowroomError, match=r"elbowroom\[ray\]"):
        next(iter(Ray().run([job], 1)))


@pytest.fixture(scope="module")
def cluster():
    """Two workers on this machine."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


def job(folder: Path, name: str, program: str) -> Job:
    """A job that runs a program with its own folder as the first argument."""
    place = folder / name
    place.mkdir()
    return Job(name, ("-c", program, str(place)), place / "output.txt")


def until(there, seconds: float = 60.0):
    """What ``there`` answers, as soon as it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = there()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


PRINTS = "print('hello')"
FAILS = "import sys; print('last words'); sys.exit(3)"
COUNTS = """
import os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
with open(place / "began", "a") as file:
    file.write(f"{os.getppid()} {os.getpid()}\\n")
SECONDS = 6
end = time.monotonic() + SECONDS
while time.monotonic() < end and not (place / "go").exists():
    time.sleep(0.05)
(place / "done").write_text("done")
"""


@needs_ray
@pytest.mark.usefixtures("cluster")
def test_it_keeps_the_laws_of_a_launcher():
    """It passes the conformance kit."""
    check_launcher(Ray())


@needs_ray
@pytest.mark.usefixtures("cluster")
def test_jobs_run_and_tell_how_they_ended(tmp_path):
    """Every job ends once with its own code, and what it printed is in its file."""
    jobs = [job(tmp_path, "a", PRINTS), job(tmp_path, "b", FAILS), job(tmp_path, "c", PRINTS)]
    ended = {one.name: one.code for one in Ray().run(jobs, 2) if isinstance(one, Ended)}
    assert ended == {"a": 0, "b": 3, "c": 0}
    assert jobs[0].output.read_text() == "hello\n"
    assert jobs[1].output.read_text() == "last words\n"


@needs_ray
@pytest.mark.usefixtures("cluster")
def test_at_most_as_many_as_asked_run_at_once(tmp_path):
    """With one at a time the second begins after the first has ended."""
    jobs = [job(tmp_path, name, COUNTS.replace("SECONDS = 6", "SECONDS = 0.5")) for name in "ab"]
    for one in Ray().run(jobs, 1):
        if isinstance(one, Ended) and one.name == "a":
            assert not (tmp_path / "b" / "began").exists()
    assert (tmp_path / "b" / "done").exists()


@needs_ray
@pytest.mark.usefixtures("cluster")
def test_a_killed_worker_costs_only_its_own_job_an_attempt(tmp_path):
    """SIGKILL for one worker: its job is begun again and ends well, the other ran once."""
    jobs = [job(tmp_path, "victim", COUNTS), job(tmp_path, "other", COUNTS)]
    running = Ray(retries=2).run(jobs, 2)
    ended, killed = {}, False
    for one in running:
        if isinstance(one, Ended):
            ended[one.name] = one.code
        elif not killed and all((tmp_path / n / "began").exists() for n in ("victim", "other")):
            worker, first = (int(w) for w in (tmp_path / "victim" / "began").read_text().split())
            os.kill(worker, signal.SIGKILL)
            os.kill(first, signal.SIGTERM)  # as a point does by itself when its input closes
            killed = True
        elif killed and len((tmp_path / "victim" / "began").read_text().splitlines()) == 2:
            for name in ("victim", "other"):
                (tmp_path / name / "go").touch()
    assert killed
    assert ended == {"victim": 0, "other": 0}
    assert len((tmp_path / "victim" / "began").read_text().splitlines()) == 2
    assert len((tmp_path / "other" / "began").read_text().splitlines()) == 1


@needs_ray
@pytest.mark.usefixtures("cluster")
def test_two_attempts_are_never_in_one_folder(tmp_path):
    """The next attempt waits until the process that a killed worker left behind has ended."""
    slow_to_end = COUNTS.replace(
        "SECONDS = 6",
        "import signal; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1.5), "
        "(place / 'ended').write_text(str(time.time())), os._exit(0))); SECONDS = 6\n"
        "(place / f'began-{os.getpid()}').write_text(str(time.time()))",
    )
    one = job(tmp_path, "victim", slow_to_end)
    place, killed, code = tmp_path / "victim", False, None
    for event in Ray(retries=2).run([one], 1):
        if isinstance(event, Ended):
            code = event.code
        elif not killed and (place / "began").exists():
            worker, first = (int(w) for w in (place / "began").read_text().split())
            os.kill(worker, signal.SIGKILL)
            os.kill(first, signal.SIGTERM)
            killed = True
        elif killed and len((place / "began").read_text().splitlines()) == 2:
            (place / "go").touch()
    assert code == 0
    second = int((place / "began").read_text().splitlines()[1].split()[1])
    assert float((place / f"began-{second}").read_text()) > float((place / "ended").read_text())


@needs_ray
@pytest.mark.usefixtures("cluster")
def test_a_worker_killed_again_and_again_is_told(tmp_path):
    """After the last retry the job ends with a code below zero, and says why."""
    one = job(tmp_path, "victim", "import os, signal; os.kill(os.getppid(), signal.SIGKILL)")
    (ended,) = (event for event in Ray(retries=1).run([one], 1) if event is not None)
    assert ended.code == -9
    assert "WorkerCrashedError" in one.output.read_text()


@needs_ray
@pytest.mark.usefixtures("cluster")
def test_closing_asks_jobs_to_stop_and_waits(tmp_path):
    """A job hears SIGTERM, has time to save itself, and is gone when close returns."""
    program = COUNTS.replace(
        "SECONDS = 6",
        "import signal; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), "
        "(place / 'saved').touch(), os._exit(75))); SECONDS = 60",
    )
    one = job(tmp_path, "a", program)
    running = Ray().run([one], 1)
    next(running)
    until((tmp_path / "a" / "began").exists)
    time.sleep(0.3)  # its handler is set by now
    running.close()
    assert (tmp_path / "a" / "saved").exists()


@needs_ray
@pytest.mark.usefixtures("cluster")
def test_points_of_a_comparison_survive_a_killed_worker(tmp_path, monkeypatch):
    """Two real points, a worker killed in training: both finish, as if it had not happened."""
    import torch
    from elbowroom.plugins.compare.axes import Axis
    from elbowroom.plugins.compare.comparison import Comparison
    from elbowroom.plugins.compare.running import run_comparison
    from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
    from elbowroom.plugins.training.run import train
    from safetensors.torch import load_file

    monkeypatch.setenv("ELBOWROOM_CACHE", str(tmp_path / "cache"))
    config = tmp_path / "tiny.yaml"
    config.write_text(
        "data: digits\nprocess: masked\ndenoiser: {name: dit, width: 16, depth: 1}\n"
        "sampler: {name: ancestral, steps: 4}\n"
        "train: {steps: 400, batch_size: 32, save_every: 20, log_every: 20, evaluate_every: null}\n"
    )
    comparison = Comparison(
        str(config), tmp_path / "out", axes=(Axis.parse("process=masked,gaussian"),),
        protocol=EvaluationProtocol(metrics=("bpd",), samples=2, checkpoint="last"),
    )  # fmt: skip
    points = comparison.points()
    victim, killed = points[0], []

    def watch(_) -> None:
        if not killed and victim.done >= 40:
            for task in _workers_of(str(victim.job)):
                os.kill(task, signal.SIGKILL)
                killed.append(task)

    run_comparison(comparison, points, Ray(retries=2), jobs=2, watch=watch)
    assert killed
    assert {point.status for point in points} == {"finished"}
    calm = train(victim.config, tmp_path / "calm", without=["console"])
    weights = [
        load_file(next((place / "checkpoints").glob("*400*")) / "model.safetensors")
        for place in (victim.folder, calm.folder)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def _workers_of(word: str) -> list[int]:
    """The parents of processes whose command has this word."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if word in words and "elbowroom.plugins.compare.worker" in words:
                found.append(parent)
    return found
