"""What a person sees while a job runs: one live line on standard error, where that is a terminal."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

REFRESH_S = 0.5

Show = Callable[[str], None]
"""Replaces the live line."""


@contextmanager
def live_line(first: str) -> Iterator[Show]:
    """A line with a spinner, gone at the end. Shows nothing where standard error is no terminal."""
    from rich.console import Console

    with Console(stderr=True).status(first) as status:
        yield lambda text: status.update(text)


@contextmanager
def watched(context: "SparkContext", show: Show) -> Iterator[None]:
    """Shows the stage at work and its tasks, from a thread that ends with the block."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(REFRESH_S):
            text = _active_stage(context)
            if text:
                show(text)

    thread = threading.Thread(target=watch, name="spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def stream_line(progress: Mapping[str, Any], row_count: int, seconds: float) -> str:
    """A streaming query's last micro-batch in one line."""
    rate = row_count / seconds if seconds > 0 else 0.0
    batch_ms = progress["durationMs"].get("triggerExecution", 0)
    return f"batch {progress['batchId']}: {row_count:,} records, {rate:,.0f} records/s, last batch {batch_ms} ms"


def _active_stage(context: "SparkContext") -> str | None:
    tracker = context.statusTracker()
    for stage_id in sorted(tracker.getActiveStageIds()):
        stage = tracker.getStageInfo(stage_id)
        if stage is not None:
            name = stage.name.rpartition("/")[2]
            return f"stage {stage_id}, {name}: {stage.numCompletedTasks} of {stage.numTasks} tasks"
    return None
