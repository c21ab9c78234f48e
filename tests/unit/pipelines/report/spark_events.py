"""Events as Spark's event log has them, with what the reader asks for and some of what it does not."""

import json
from typing import Any

QUERY = "9e8e9e33-efdd-40c0-a2f4-40e9ff27386a"
LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"

Event = dict[str, Any]


def rdd(number: int, operator: str | None = None) -> Event:
    scope = {"id": f"spark_plan_{number}", "name": operator} if operator else {"id": str(number), "name": "map"}
    return {"RDD ID": number, "Name": "MapPartitionsRDD", "Scope": json.dumps(scope), "Parent IDs": []}


def stage(number: int, parents: tuple[int, ...], rdds: list[Event], **more: Any) -> Event:
    told = {
        "Stage ID": number,
        "Stage Attempt ID": 0,
        "Stage Name": "start at /home/me/mine.py:3",
        "Number of Tasks": 2,
    }
    return told | {"RDD Info": rdds, "Parent IDs": list(parents), "Accumulables": []} | more


def job_start(number: int, stages: list[Event], **properties: str) -> Event:
    ids = [info["Stage ID"] for info in stages]
    told = {"Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": 1000 * number, "Stage Infos": stages}
    return told | {"Stage IDs": ids, "Properties": {name.replace("_", "."): word for name, word in properties.items()}}


def job_end(number: int, message: str | None = None) -> Event:
    result: Event = (
        {"Result": "JobSucceeded"} if message is None else {"Result": "JobFailed", "Exception": {"Message": message}}
    )
    return {
        "Event": "SparkListenerJobEnd",
        "Job ID": number,
        "Completion Time": 1000 * number + 700,
        "Job Result": result,
    }


def stage_end(info: Event, **more: Any) -> Event:
    sums = [
        {"ID": 1, "Name": "number of output rows", "Update": "5", "Value": "5"},
        {"ID": 2, "Name": "internal.metrics.executorRunTime", "Value": 1500},
        {"ID": 3, "Name": "internal.metrics.shuffle.read.localBytesRead", "Value": 100},
        {"ID": 4, "Name": "internal.metrics.shuffle.read.remoteBytesRead", "Value": 20},
        {"ID": 5, "Name": "internal.metrics.shuffle.write.bytesWritten", "Value": 2048},
        {"ID": 6, "Name": "internal.metrics.input.recordsRead", "Value": 19999},
    ]
    told = info | {"Submission Time": 1000, "Completion Time": 1600, "Accumulables": sums} | more
    return {"Event": "SparkListenerStageCompleted", "Stage Info": told}


def task_end(stage_id: int, took_ms: int, **reason: str) -> Event:
    times = {"Launch Time": 1000, "Finish Time": 1000 + took_ms}
    told = {"Event": "SparkListenerTaskEnd", "Stage ID": stage_id, "Stage Attempt ID": 0, "Task Type": "ResultTask"}
    return told | {"Task End Reason": reason or {"Reason": "Success"}, "Task Info": {"Index": 1, "Attempt": 0} | times}


def progress(batch: int, rows: int = 10, behind: int = 5, **more: Any) -> Event:
    source = {"endOffset": f'{{"web": {{"0": {rows * batch}}}}}', "numInputRows": rows, "inputRowsPerSecond": 12.5}
    source |= {"latestOffset": f'{{"web": {{"0": {rows * batch + behind}}}}}', "processedRowsPerSecond": 50.0}
    told: Event = {"id": QUERY, "runId": "r", "name": "hours", "timestamp": f"2026-11-22T08:00:{batch % 60:02}.000Z"}
    told |= {"batchId": batch, "durationMs": {"triggerExecution": 200, "addBatch": 150}, "sources": [source]}
    return {"Event": f"{LISTENER}QueryProgressEvent", "progress": told | more}


def of_a_stream(batch: int) -> list[Event]:
    """One micro-batch of two stages."""
    scan = stage(2 * batch, (), [rdd(20 * batch, "MicroBatchScan"), rdd(20 * batch + 1, "WholeStageCodegen (1)")])
    save = stage(2 * batch + 1, (2 * batch,), [rdd(20 * batch + 3, "StateStoreSave"), rdd(20 * batch + 2, "Exchange")])
    start = job_start(batch, [scan, save])
    start["Properties"] = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(batch)}
    start["Properties"]["spark.job.description"] = f"hours\nid = {QUERY}"
    ends = [task_end(2 * batch, 90), stage_end(scan), stage_end(save), job_end(batch), progress(batch)]
    return [start, *ends]


BEGIN: list[Event] = [
    {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
    {"Event": "SparkListenerExecutorAdded", "Timestamp": 1, "Executor ID": "driver"},
    {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.master": "local[2]"}},
    {"Event": "SparkListenerApplicationStart", "App Name": "mine", "App ID": "local-1", "Timestamp": 500, "User": "me"},
    {"Event": f"{LISTENER}QueryStartedEvent", "id": QUERY, "runId": "r", "name": "hours", "timestamp": "x"},
]
END: list[Event] = [
    {"Event": f"{LISTENER}QueryTerminatedEvent", "id": QUERY, "runId": "r", "exception": None},
    {"Event": "SparkListenerApplicationEnd", "Timestamp": 9000},
]


def whole_log(batch_count: int = 2) -> list[Event]:
    return BEGIN + [event for batch in range(batch_count) for event in of_a_stream(batch)] + END


def as_bytes(events: list[Event]) -> bytes:
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)
