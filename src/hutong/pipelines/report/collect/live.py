"""Reads a running driver by Spark's REST API.

The API has jobs and stages, but neither the dependencies of stages nor streaming queries. If the driver writes an event
log on this machine, that is read instead.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.engine.stages import short_name, stage_of_entry
from hutong.pipelines.report.collect.event_log import has_event_log, read_event_log
from hutong.pipelines.report.model import SparkJob, SparkRun

TIMEOUT_S = 30
ANSWER_BYTES_MAX = 256 * 2**20
NO_EVENT_LOG = (
    "The driver writes no event log that can be read here, and its REST API tells neither which stage waits for which "
    "nor what streaming queries did. Start it with spark.eventLog.enabled=true, and this page has both."
)
JOB_STATES = {"SUCCEEDED": "SUCCEEDED", "FAILED": "FAILED"}


def run_of_driver(url: str) -> SparkRun:
    """Raises UsageError when there is no driver at `url`, such as `http://127.0.0.1:4040`."""
    run = SparkRun()
    if not add_driver(url, run):
        run.note(NO_EVENT_LOG)
    return run


def add_driver(url: str, run: SparkRun) -> bool:
    """Add the facts of the driver at `url`; return True if by its event log. Raises UsageError when there is none."""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise UsageError(f"--url is {url}: give the address of a driver's web page, such as http://127.0.0.1:4040")
    base = f"{url.rstrip('/')}/api/v1/applications"
    try:
        applications = _get(base)
        application = applications[0]
        run.name, run.application_id = str(application["name"]), str(application["id"])
        environment = _get(f"{base}/{run.application_id}/environment")
        settings = dict(environment["sparkProperties"])
        log = _event_log(settings, run.application_id)
        if log is not None:
            read_event_log(log, run)
        else:
            _fill(run, application, settings, base)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{url} answers, but not as Spark's REST API does", ExitCode.UNAVAILABLE) from error
    return log is not None


def _fill(run: SparkRun, application: Mapping[str, Any], settings: Mapping[str, str], base: str) -> None:
    attempt = application["attempts"][-1]
    run.spark_version, run.master = str(attempt.get("appSparkVersion", "")), str(settings.get("spark.master", ""))
    run.started_ms, run.state = int(attempt["startTimeEpoch"]), "running"
    for entry in reversed(_get(f"{base}/{run.application_id}/jobs")):
        job_id = int(entry["jobId"])
        run.add_job(
            SparkJob(
                job_id=job_id,
                work=f"group {entry['jobGroup']}" if entry.get("jobGroup") else f"job {job_id}",
                name=short_name(str(entry.get("description") or entry["name"])).partition("\n")[0],
                stage_ids=tuple(int(stage_id) for stage_id in entry["stageIds"]),
                submitted_ms=_moment(entry.get("submissionTime")),
                ended_ms=_moment(entry.get("completionTime")),
                status=JOB_STATES.get(entry["status"], "RUNNING"),
            )
        )
    for entry in reversed(_get(f"{base}/{run.application_id}/stages")):
        run.add_stage(stage_of_entry(entry))
        if entry.get("failureReason"):
            run.add_failure(f"stage {entry['stageId']}", str(entry["failureReason"]))


def _event_log(settings: Mapping[str, str], application_id: str) -> Path | None:
    """Return the path of the driver's event log, if it writes one and this machine has the folder."""
    if settings.get("spark.eventLog.enabled") != "true":
        return None
    place = urlsplit(settings.get("spark.eventLog.dir", ""))
    if place.scheme not in {"", "file"}:
        return None
    folder = Path(url2pathname(place.path))
    names = (f"eventlog_v2_{application_id}", application_id, f"{application_id}.inprogress")
    candidates = [folder / name for name in names] + sorted(folder.glob(f"{application_id}.*"))
    return next((path for path in candidates if path.exists() and has_event_log(path)), None)


def _get(url: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a driver is never behind a proxy
    try:
        with opener.open(url, timeout=TIMEOUT_S) as response:
            body = response.read(ANSWER_BYTES_MAX + 1)
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise UsageError(f"there is no driver of Spark at {url}: {reason}", ExitCode.UNAVAILABLE) from error
    if len(body) > ANSWER_BYTES_MAX:
        raise UsageError(f"the answer of {url} is larger than {ANSWER_BYTES_MAX >> 20} MiB", ExitCode.UNAVAILABLE)
    return json.loads(body)


def _moment(timestamp: Any) -> int | None:
    """`2026-11-22T08:48:52.290GMT`, as the API writes it."""
    if timestamp is None:
        return None
    return round(datetime.fromisoformat(str(timestamp).replace("GMT", "+00:00")).timestamp() * 1000)
