"""A driver's REST API, played by a small server."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipelines.report.spark_events import as_bytes, whole_log

from hutong.foundation.errors import UsageError
from hutong.pipelines.report.collect.live import run_of_driver
from hutong.pipelines.report.render.page import page

STAGE = {
    "stageId": 4,
    "name": "count at /x/mine.py:3",
    "status": "COMPLETE",
    "numTasks": 2,
    "executorRunTime": 70,
    "shuffleReadBytes": 1,
    "shuffleWriteBytes": 0,
    "rddIds": [1],
    "numFailedTasks": 1,
    "inputRecords": 9,
}
JOB = {
    "jobId": 2,
    "name": "count at mine.py:3",
    "status": "SUCCEEDED",
    "stageIds": [4],
    "submissionTime": "2026-11-22T08:48:52.290GMT",
    "completionTime": "2026-11-22T08:48:53.290GMT",
}
APPLICATION = {"id": "local-1", "name": "mine", "attempts": [{"startTimeEpoch": 5, "appSparkVersion": "4.3.0"}]}


@contextmanager
def driver(answer: Callable[[str], Any]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer(self.path.removeprefix("/api/v1/applications"))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def told(settings: dict[str, str]) -> Callable[[str], Any]:
    answers = {
        "": [APPLICATION],
        "/local-1/jobs": [JOB],
        "/local-1/stages": [STAGE],
        "/local-1/environment": {"sparkProperties": list(settings.items())},
    }
    return answers.__getitem__


def test_jobs_and_stages_of_a_driver() -> None:
    with driver(told({"spark.master": "local[2]"})) as url:
        run = run_of_driver(url)
    assert (run.name, run.master, run.spark_version, run.state) == ("mine", "local[2]", "4.3.0", "running")
    (job,) = run.jobs.values()
    assert (job.ended_ms or 0) - (job.submitted_ms or 0) == 1000
    assert [(stage.name, stage.failed_task_count) for stage in run.stages_of([job])] == [("count at mine.py:3", 1)]
    assert "spark.eventLog.enabled=true" in page(run)


def test_its_event_log_is_read_where_it_lies_here(tmp_path: Path) -> None:
    (tmp_path / "local-1.inprogress").write_bytes(as_bytes(whole_log()))
    with driver(told({"spark.eventLog.enabled": "true", "spark.eventLog.dir": tmp_path.as_uri()})) as url:
        assert len(run_of_driver(url).queries) == 1


@pytest.mark.parametrize("place", ["hdfs://x/y", "file:///nowhere/at/all"])
def test_an_event_log_elsewhere_is_let_be(place: str) -> None:
    with driver(told({"spark.eventLog.enabled": "true", "spark.eventLog.dir": place})) as url:
        assert len(run_of_driver(url).stages) == 1


@pytest.mark.parametrize("answer", [[], {}, [{"id": 1}], "x", [None], [APPLICATION]])
def test_another_server_is_no_driver(answer: Any) -> None:
    with driver(lambda _path: answer) as url, pytest.raises(UsageError, match="not as Spark's REST API does"):
        run_of_driver(url)


def test_nobody_there() -> None:
    with driver(lambda _path: []) as url:
        pass
    with pytest.raises(UsageError, match="there is no driver of Spark at"):
        run_of_driver(url)
    with pytest.raises(UsageError, match="give the address of a driver's web page"):
        run_of_driver("file:///etc/passwd")
