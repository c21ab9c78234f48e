"""A supervisor with drivers that are small scripts: what it starts again, what it stops, what it leaves behind."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.waiting import until

from hutong.cli.main import run as command
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import UsageError
from hutong.pipelines.declared import Pipeline, Source
from hutong.pipelines.declared.process import restarts
from hutong.pipelines.declared.process.request import Request, as_asked
from hutong.pipelines.declared.process.supervisor import Supervisor
from hutong.pipelines.declared.run.run_folder import FAILED, FINISHED, STOPPED, PipelineFolder, RunRecord

PREAMBLE = """
import os, signal, sys
from dataclasses import replace
from hutong.pipelines.declared.process.request import Request
request = Request.from_line(sys.stdin.readline())
def end(state, code, error=None):
    run = request.run_folder
    run.write(replace(run.read(), state=state, error=error, ended_ms=1))
    sys.exit(code)
"""
WAIT_S, BETWEEN_S = 60.0, 0.02


def supervisor(folder: Path, driver: str, told: list[str], *, limit: int = 10) -> Supervisor:
    pipeline = Pipeline(name="web", sources={"a": Source(topic="t")}, restarts=limit, file=folder / "web.toml")
    request = Request(file=str(folder / "web.toml"), folder=str(folder / "web"), grace_s=30)
    command = [sys.executable, "-c", PREAMBLE + driver]
    return Supervisor(pipeline, request, SystemClock(), told.append, command)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "PAUSE_S_FIRST", 0.0)


def orphaned(folder: Path, driver: str) -> PipelineFolder:
    """A pipeline whose driver is at work and whose supervisor was killed."""
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from tests.unit.pipelines.declared.process.test_supervisor import supervisor\n"
        f"supervisor(Path({str(folder)!r}), {driver!r}, []).run()"
    )
    pipeline = PipelineFolder(folder / "web")
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        until(
            lambda: any(run.last_progress() for run in pipeline.runs()),
            deadline_s=WAIT_S,
            between_s=BETWEEN_S,
            what="the driver",
        )
        process.kill()
        process.wait()
    return pipeline


def records(folder: Path) -> list[RunRecord]:
    return [record for run in PipelineFolder(folder / "web").runs() if (record := run.read()) is not None]


def test_a_driver_that_ends_well_ends_all(tmp_path: Path) -> None:
    told: list[str] = []
    code, record = supervisor(tmp_path, "end('finished', 0)", told).run()
    assert (code, told) == (0, [])
    assert record is not None
    assert (record.state, record.attempt, record.supervisor_pid) == (FINISHED, 1, os.getpid())


def test_a_driver_that_is_killed_is_followed_by_another(tmp_path: Path) -> None:
    told: list[str] = []
    driver = "end('finished', 0) if request.attempt == 3 else os.kill(os.getpid(), signal.SIGKILL)"
    assert supervisor(tmp_path, driver, told).run()[0] == 0
    assert [one.state for one in records(tmp_path)] == [FAILED, FAILED, FINISHED]
    assert [one.attempt for one in records(tmp_path)] == [1, 2, 3]
    assert told == ["the driver was killed by signal 9; starting again in 0 s"] * 2


def test_a_failure_that_would_come_again_ends_all(tmp_path: Path) -> None:
    told: list[str] = []
    code, record = supervisor(tmp_path, "end('failed', 65, 'a record is bad')", told).run()
    assert record is not None
    assert (code, record.error, told) == (65, "a record is bad", [])


def test_the_limit_of_failures_in_a_row_ends_all(tmp_path: Path) -> None:
    told: list[str] = []
    code, _ = supervisor(tmp_path, "end('failed', 75, 'no broker')", told, limit=2).run()
    assert (code, len(told), len(records(tmp_path))) == (75, 2, 3)


def test_a_batch_that_was_done_makes_the_count_begin_anew(tmp_path: Path) -> None:
    driver = (
        "if request.attempt < 5: request.run_folder.append_progress('{}')\n"
        "end('finished', 0) if request.attempt == 5 else end('failed', 75)"
    )
    assert supervisor(tmp_path, driver, [], limit=1).run()[0] == 0
    assert len(records(tmp_path)) == 5


def test_the_wish_to_stop_reaches_the_driver(tmp_path: Path) -> None:
    driver = "request.run_folder.append_progress('{}')\nassert sys.stdin.readline() == 'stop\\n'\nend('stopped', 0)"
    told: list[str] = []
    pipeline = PipelineFolder(tmp_path / "web")

    def stop() -> None:
        until(
            lambda: any(run.last_progress() for run in pipeline.runs()),
            deadline_s=WAIT_S,
            between_s=BETWEEN_S,
            what="the driver",
        )
        pid = pipeline.supervisor_pid
        assert pid == os.getpid()
        os.kill(pid, signal.SIGTERM)

    stopping = threading.Thread(target=stop)
    stopping.start()
    code, record = supervisor(tmp_path, driver, told).run()
    stopping.join()
    assert record is not None
    assert (code, record.state) == (0, STOPPED)
    assert told == ["stopping after this batch; once more to stop at once"]
    assert pipeline.supervisor_pid is None


def test_what_a_driver_left_behind_is_ended(tmp_path: Path) -> None:
    driver = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    supervisor(tmp_path, driver, [], limit=0).run()
    pid = int((tmp_path / "child").read_text())
    until(lambda: not _is_alive(pid), deadline_s=WAIT_S, between_s=BETWEEN_S, what="the end of the child")


def test_a_driver_holds_the_pipeline_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    driver = (
        "request.run_folder.append_progress('{}')\n"
        "sys.stdin.read()\n"  # its end is the supervisor's
        f"import time\nwhile not os.path.exists({str(tmp_path / 'enough')!r}): time.sleep(0.05)\n"
        "end('stopped', 0)"
    )
    pipeline = orphaned(tmp_path, driver)
    assert pipeline.supervisor_pid is not None
    with pytest.raises(UsageError, match="is running already"), pipeline.locked():
        pass
    (tmp_path / "enough").touch()
    until(lambda: pipeline.supervisor_pid is None, deadline_s=WAIT_S, between_s=BETWEEN_S, what="the end of the driver")
    assert [one.state for one in records(tmp_path)] == [STOPPED]


def test_a_driver_without_a_supervisor_can_be_stopped_at_once(tmp_path: Path) -> None:
    driver = "request.run_folder.append_progress('{}')\nwhile True: signal.pause()"
    pipeline = orphaned(tmp_path, driver)
    assert command(["pipeline", "stop", "web", "--now", "--state", str(tmp_path)]) == 0
    assert pipeline.supervisor_pid is None


def test_a_request_survives_the_way_to_the_driver() -> None:
    request = Request(file="/a/b.toml", folder="/s/b", run_id="1", settings={"k": "é"}, once=True)
    assert Request.from_line(request.to_line()) == request


def test_once_changes_only_a_pipeline_without_end() -> None:
    pipeline = Pipeline(name="a", sources={})
    once = Request(file="", folder="", once=True)
    assert as_asked(pipeline, once).trigger == "available now"
    assert as_asked(replace(pipeline, trigger="batch"), once).trigger == "batch"
    assert as_asked(pipeline, replace(once, once=False)) is pipeline


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
