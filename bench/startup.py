"""Start-up: from the start of the process to the first record acknowledged, and the memory of an idle broker.

Strategy: a fresh process on a fresh data directory each turn, and a raw connection that creates a topic and produces to
it as soon as the broker says that it is ready. Kafka is started by a script that formats its directory first and waits
for it; that time is not counted: its clock starts with the broker's own process, as the script's ready line reports.
"""

import pathlib
import shutil
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from bench.compare import Figure, Measurement
from bench.figures import memory
from bench.raw_client import create_topic
from bench.targets import Target, start_hutong, start_kafka

READY: Final = Figure("ready", "s", False)
FIRST_RECORD: Final = Figure("first acknowledged record", "s", False)
IDLE_RSS: Final = Figure("idle resident", "MB", False, 0)
IDLE_PSS: Final = Figure("idle proportional share", "MB", False, 0)


def measurements(
    targets: Sequence[Target], *, folder: pathlib.Path, kafka_script: pathlib.Path | None, turns: int
) -> list[Measurement]:
    """Only for brokers that this run starts itself."""
    startable = [target for target in targets if target.process and not target.is_ceiling]
    return [Measurement("start-up", partial(measure, folder, kafka_script), startable, turns)]


def measure(folder: pathlib.Path, kafka_script: pathlib.Path | None, target: Target, turn: int) -> dict[Figure, float]:
    """One turn with a broker of the same kind as `target`, beside it."""
    scratch = folder / f"start-{target.name}-{turn}"
    scratch.mkdir()
    if target.is_hutong:
        started = start_hutong(scratch)
    else:
        assert kafka_script
        started = start_kafka(kafka_script, scratch, fsync=target.name.endswith("fsync"))
    try:
        create_topic(started.bootstrap, "first")
        acknowledged_at_s = time.monotonic()
        assert started.process
        assert started.pid
        process = started.process
        ready_s = float(process.fields.get("seconds", process.ready_at_s - process.started_at_s))
        held = memory(started.pid)
    finally:
        started.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    first_record_s = ready_s + acknowledged_at_s - process.ready_at_s
    return {READY: ready_s, FIRST_RECORD: first_record_s, IDLE_RSS: held.rss_mb, IDLE_PSS: held.pss_mb}
