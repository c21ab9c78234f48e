"""Progress reports of a run's streaming queries: each goes to the run's folder; the newest figures are kept in memory.

Spark calls the listener from a thread of its own, in the order of events. Knows nothing of the queries' work.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hutong.pipelines.declared.run.figures import RATE_BATCHES, figures, line_of
from hutong.pipelines.declared.run.run_folder import RunFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

END_S_MAX = 10.0
"""The time for the last events of ended queries to arrive."""
OnProgress = Callable[[Mapping[str, Any]], None]


class ProgressLog:
    """Collects the progress of all queries of a session. `on_progress` gets each document after it was written."""

    def __init__(self, run: RunFolder, on_progress: OnProgress = lambda document: None) -> None:
        self._run = run
        self._on_progress = on_progress
        self._changed = threading.Condition()
        self._recent: dict[str, list[Mapping[str, Any]]] = {}
        self._done: dict[str, int] = {}
        self._ended: set[str] = set()
        self.row_count = 0

    @property
    def line(self) -> str:
        """The newest figures in one line."""
        with self._changed:
            documents = [document for recent in self._recent.values() for document in recent]
        return line_of(figures(documents)) or "waiting for the first batch"

    @property
    def batch_count(self) -> int:
        """The number of completed batches."""
        with self._changed:
            return sum(self._done.values())

    def batches_done(self, query_id: str) -> int:
        with self._changed:
            return self._done.get(str(query_id), 0)

    def wait(self, seconds: float) -> None:
        """Until something is reported, or the time is over."""
        with self._changed:
            self._changed.wait(seconds)

    def wait_until_ended(self, queries: "Iterable[StreamingQuery]") -> None:
        """Until Spark has reported the end of these queries, and so all before it."""
        wanted = {str(query.id) for query in queries}
        with self._changed:
            self._changed.wait_for(lambda: wanted <= self._ended, END_S_MAX)

    @contextmanager
    def attached(self, session: "SparkSession") -> Iterator[None]:
        """Listen to the session's queries."""
        listener = _listener(self)
        session.streams.addListener(listener)
        try:
            yield
        finally:
            session.streams.removeListener(listener)

    def note_progress(self, line: str) -> None:
        """One progress, as JSON."""
        document = json.loads(line)
        self._run.append_progress(json.dumps(document, ensure_ascii=False))
        query_id = str(document["id"])
        with self._changed:
            recent = self._recent.setdefault(query_id, [])
            recent.append(document)
            del recent[: -2 * RATE_BATCHES]
            if document.get("numInputRows") or "addBatch" in (document.get("durationMs") or {}):
                self._done[query_id] = self._done.get(query_id, 0) + 1
            self.row_count += document.get("numInputRows") or 0
            self._changed.notify_all()
        self._on_progress(document)

    def note_end(self, query_id: str) -> None:
        with self._changed:
            self._ended.add(str(query_id))
            self._changed.notify_all()


def _listener(log: ProgressLog) -> Any:
    """Made here, since its base class is Spark's."""
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    class ProgressListener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:
            pass

        def onQueryProgress(self, event: QueryProgressEvent) -> None:
            log.note_progress(event.progress.json)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:
            pass

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
            log.note_end(str(event.id))

    return ProgressListener()
