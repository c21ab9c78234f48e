"""Start-up: from the start of the process to the first record acknowledged; what an idle broker costs.

Strategy: a fresh process on a fresh data directory each turn, and a raw connection that creates a topic and produces to
it as soon as the broker says that it is ready. Kafka is started by a script that formats its directory first and waits
for it; that time is not counted: its clock starts with the broker's own process, as the script's ready line reports.
Hutong is started once more as images do it, which keep no bytecode: then every module that is imported is compiled. An
embedded node starts in a process of its own, too: tests pay for its import once, and for each start behind that.
"""

import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from bench.compare import Figure, Measurement
from bench.figures import memory, running_seconds, wake_ups
from bench.raw_client import create_topic
from bench.targets import Target, start_hutong, start_kafka

READY: Final = Figure("ready", "s", False)
FIRST_RECORD: Final = Figure("first acknowledged record", "s", False)
IDLE_RSS: Final = Figure("idle resident", "MB", False, 0)
IDLE_PSS: Final = Figure("idle proportional share", "MB", False, 0)
IDLE_WAKE_UPS: Final = Figure("wake-ups", "1/s", False, 1)
IDLE_CPU: Final = Figure("share of one processor", "%", False, 3)
EMBEDDED_FIRST: Final = Figure("import and first start", "s", False)
EMBEDDED_NEXT: Final = Figure("next start", "s", False)
EMBEDDED_MODULES: Final = Figure("modules imported", "", False, 0)
SETTLE_S: Final = 5.0
EMBEDDED_S_MAX: Final = 60.0
EMBEDDED: Final = """
import sys, time
known, begun = set(sys.modules), time.perf_counter()
from hutong.testing import EmbeddedNode
with EmbeddedNode(topics=["first"]):
    first = time.perf_counter() - begun
begun = time.perf_counter()
with EmbeddedNode(topics=["first"]):
    print(first, time.perf_counter() - begun, len(set(sys.modules) - known))
"""


def measurements(
    targets: Sequence[Target], *, folder: pathlib.Path, kafka_script: pathlib.Path | None, turns: int, idle_s: float
) -> list[Measurement]:
    """Only for brokers that this run starts itself."""
    startable = [target for target in targets if target.process and not target.is_ceiling]
    ours = [target for target in startable if target.is_hutong]
    return [
        Measurement("start-up", partial(measure, folder, kafka_script), startable, turns),
        Measurement("start-up without bytecode", partial(measure_uncompiled, folder), ours, turns),
        Measurement("embedded start", measure_embedded, ours, turns),
        Measurement("idle", partial(measure_idle, idle_s), startable, turns=1, warm_up=False),
    ]


def measure(folder: pathlib.Path, kafka_script: pathlib.Path | None, target: Target, turn: int) -> dict[Figure, float]:
    """One turn with a broker of the same kind as `target`, next to it."""
    scratch = folder / f"start-{target.name}-{turn}"
    scratch.mkdir()
    if target.is_hutong:
        started = start_hutong(scratch)
    else:
        assert kafka_script
        started = start_kafka(kafka_script, scratch, fsync=target.name.endswith("fsync"))
    return _figures_of(started, scratch)


def measure_uncompiled(folder: pathlib.Path, target: Target, turn: int) -> dict[Figure, float]:
    """One turn in which Python finds no bytecode and leaves none."""
    scratch = folder / f"uncompiled-{turn}"
    scratch.mkdir()
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(scratch / "none")}
    return _figures_of(start_hutong(scratch, environment=environment), scratch)


def measure_embedded(target: Target, turn: int) -> dict[Figure, float]:
    """One fresh process that starts a node within itself twice."""
    command = [sys.executable, "-c", EMBEDDED]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=EMBEDDED_S_MAX).stdout
    first_s, next_s, modules = map(float, printed.split())
    return {EMBEDDED_FIRST: first_s, EMBEDDED_NEXT: next_s, EMBEDDED_MODULES: modules}


def measure_idle(seconds: float, target: Target, turn: int) -> dict[Figure, float]:
    """The wake-ups of an idle broker, and their cost."""
    assert target.pid
    time.sleep(SETTLE_S)
    woken, ran_s, begun_s = wake_ups(target.pid), running_seconds(target.pid), time.monotonic()
    time.sleep(seconds)
    passed_s = time.monotonic() - begun_s
    return {
        IDLE_WAKE_UPS: (wake_ups(target.pid) - woken) / passed_s,
        IDLE_CPU: 100 * (running_seconds(target.pid) - ran_s) / passed_s,
    }


def _figures_of(started: Target, scratch: pathlib.Path) -> dict[Figure, float]:
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
