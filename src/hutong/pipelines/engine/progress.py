"""Progress display of a running job: one live line on a terminal, else a new line now and then."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from hutong.foundation.clock import Clock

if TYPE_CHECKING:
    from pyspark import SparkContext

REFRESH_S = 0.5
LINE_INTERVAL_MS = 10_000
"""Off a terminal, as in a container's log: what changed since is shown this often at most."""

Show = Callable[[str], None]
"""Replaces the live line."""


@contextmanager
def live_line(first: str) -> Iterator[Show]:
    """A line with a spinner, gone at the end. Shows nothing where standard error is no terminal."""
    from rich.console import Console

    with Console(stderr=True).status(first) as status:
        yield lambda text: status.update(text)


@contextmanager
def lasting_lines(first: str, clock: Clock) -> Iterator[Show]:
    """As `live_line` on a terminal; elsewhere lines that stay, for what runs long and is watched by its log."""
    if sys.stderr.isatty():
        with live_line(first) as show:
            yield show
    else:
        lines = Lines(sys.stderr, clock)
        lines.show(first)
        yield lines.show


class Lines:
    """Writes what is new as a line of its own, at most one in `LINE_INTERVAL_MS`; what comes between is left out."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._shown = ""
        self._shown_ms = clock.monotonic_ms() - LINE_INTERVAL_MS

    def show(self, text: str) -> None:
        now_ms = self._clock.monotonic_ms()
        if text != self._shown and now_ms - self._shown_ms >= LINE_INTERVAL_MS:
            self._stream.write(text + "\n")
            self._stream.flush()
            self._shown, self._shown_ms = text, now_ms


@contextmanager
def watched(context: "SparkContext", show: Show) -> Iterator[None]:
    """Show the stage at work and its tasks, from a thread that ends with the block."""
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
