"""A process that archives a topic in many small batches, each with a compaction: to be killed on the way.

Arguments: bootstrap, topic, folder.
"""

import sys
import threading
from pathlib import Path

from hutong.pipelines.declared.declare.definition import AVAILABLE_NOW, Pipeline
from hutong.pipelines.engine.session import spark_session
from hutong.pipelines.jobs import archive
from hutong.pipelines.jobs.job import Work

ROWS_PER_BATCH = "1000"


def main(bootstrap: str, topic: str, folder: Path) -> None:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    pipeline = Pipeline(name="victim", sources={}, trigger=AVAILABLE_NOW, file=folder / "victim.toml")
    event_time = "timestamp'2015-05-17 00:00:00' + make_interval(0, 0, 0, CAST(offset % 3 AS INT))"
    parameters = archive.JOB.with_defaults({"path": "archive", "compact_every": "1", "event_time": event_time})
    with spark_session("victim", "local[2]", quick=True) as session:
        records = session.readStream.format("hutong").options(**options, maxOffsetsPerTrigger=ROWS_PER_BATCH).load()
        stop = threading.Event()
        work = Work(session, {"r": records}, parameters, pipeline, folder / "checkpoint", stop, lambda _text: None)
        archive.run(work)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
