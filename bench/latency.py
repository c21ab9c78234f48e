"""One-record requests: rate and latency of Produce with a single record of 100 B, acks=1.

Strategy: the raw generator of `bench.load` in three shapes, in both states of the machine (`bench.machine_state`), on
fresh topics. Hutong is measured with QoS RECEIVE (acknowledged from memory, as Kafka's default is) and with its
default, PERSISTENCE (acknowledged after fsync). The bare server's figures are the generator's own ceiling.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from bench.compare import Figure, Measurement
from bench.load import PING_PONG, SHAPES, Shape, run_load
from bench.machine_state import AWAKE, QUIET, machine_state
from bench.targets import QOS_RECEIVE, Target

RATE: Final = Figure("rate", "requests/s", True, 0)
P50: Final = Figure("p50", "ms", False, 3)
P99: Final = Figure("p99", "ms", False, 3)
GENERATOR_CPU: Final = Figure("generator's own CPU", "us/request", None, 1)


def variants(targets: Sequence[Target]) -> list[Target]:
    """Hutong twice, by QoS; the others as they are."""
    made = []
    for target in targets:
        if target.is_hutong:
            made.append(target.with_qos(QOS_RECEIVE))
        made.append(target)
    return made


def measurements(targets: Sequence[Target], *, seconds: float, turns: int) -> list[Measurement]:
    """Every shape on a quiet machine, and ping-pong also with the CPUs kept awake."""
    runs = [(shape, QUIET) for shape in SHAPES]
    runs.insert(1, (PING_PONG, AWAKE))
    return [
        Measurement(
            f"one-record produce, {shape.name}, CPUs {state}", partial(measure, shape, state, seconds), targets, turns
        )
        for shape, state in runs
    ]


def measure(shape: Shape, state: str, seconds: float, target: Target, turn: int) -> dict[Figure, float]:
    topic = f"latency-{turn}-{time.time_ns()}"
    target.create_topic(topic)
    with machine_state(state):
        load = run_load(target.address, topic, shape, seconds=seconds, tls=target.tls_context())
    return {RATE: load.requests_per_s, P50: load.p50_ms, P99: load.p99_ms, GENERATOR_CPU: load.generator_cpu_us}
