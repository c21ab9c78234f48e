"""Stages as text, from what Spark's REST API says of a small PageRank."""

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from hutong.pipelines.engine import stages as module
from hutong.pipelines.engine.stages import ATTEMPTS_MAX, _get, stages_of, stages_text


def entry(
    stage_id: int, name: str, rdd_ids: list[int], read: int, written: int, status: str = "COMPLETE"
) -> dict[str, Any]:
    return {
        "stageId": stage_id,
        "name": f"{name} at /home/me/pagerank.py:{stage_id}",
        "status": status,
        "numTasks": 2,
        "executorRunTime": 1500,
        "shuffleReadBytes": read,
        "shuffleWriteBytes": written,
        "rddIds": rdd_ids,
    }


TOLD = [
    entry(2, "collect", [7, 8, 9], 2048, 0),
    entry(1, "reduceByKey", [3, 4, 5, 6], 3 * 2**20, 2048),
    entry(0, "distinct", [0, 1, 2], 0, 3 * 2**20),
    entry(3, "collect", [10, 3], 0, 0, "SKIPPED"),
]
SHUFFLES = {3: {2}, 7: {6}}


@pytest.fixture(autouse=True)
def told_by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [{"jobGroup": "g", "stageIds": [0, 1, 2, 3]}, {"jobGroup": "other", "stageIds": [7]}, {"stageIds": [8]}]
    of_others = [entry(7, "count", [20], 0, 0), entry(8, "count", [21], 0, 0)]
    monkeypatch.setattr(module, "_get", lambda context, path: jobs if path == "/jobs" else TOLD + of_others)


def test_a_stage_waits_for_those_that_made_its_shuffles() -> None:
    stages = stages_of(None, "g", SHUFFLES)  # type: ignore[arg-type]
    assert [(stage.stage_id, stage.waits_for) for stage in stages] == [(0, ()), (1, (0,)), (2, (1,)), (3, (0,))]


def test_stages_are_drawn_one_a_line() -> None:
    assert stages_text(stages_of(None, "g", SHUFFLES)).splitlines() == [  # type: ignore[arg-type]
        "stage  tasks   seconds   shuffle in  shuffle out  what",
        "    0      2      1.50            -      3.0 MiB  distinct at pagerank.py:0",
        "    1      2      1.50      3.0 MiB      2.0 KiB  reduceByKey at pagerank.py:1  ◀ 0",
        "    2      2      1.50      2.0 KiB            -  collect at pagerank.py:2  ◀ 1",
        "    3      2      1.50            -            -  collect at pagerank.py:3  ◀ 0  (skipped: kept from before)",
    ]


def test_without_a_lineage_nothing_is_said_of_the_order() -> None:
    assert "◀" not in stages_text(stages_of(None, "g"))  # type: ignore[arg-type]


@pytest.mark.parametrize("drops", [0, ATTEMPTS_MAX - 1, ATTEMPTS_MAX])
def test_a_dropped_connection_does_not_end_a_job(drops: int) -> None:
    def serve() -> None:
        for number in range(min(drops + 1, ATTEMPTS_MAX)):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                if number == drops:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1, 2, 3]")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        server = threading.Thread(target=serve)
        server.start()
        context: Any = SimpleNamespace(uiWebUrl=f"http://127.0.0.1:{listener.getsockname()[1]}", applicationId="app")
        if drops < ATTEMPTS_MAX:
            assert _get(context, "/jobs") == [1, 2, 3]
        else:
            with pytest.raises(ConnectionError):
                _get(context, "/jobs")
        server.join()
