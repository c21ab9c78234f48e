"""The pause of a partition whose leader goes: `python -m bench failover [--rounds 10]`.

Strategy: three brokers, each record on all three. A producer (librdkafka, acks=all, idempotent) sends small records to
every partition, a few hundred a second. Each round a broker that leads partitions is killed with SIGKILL, and in
another series stopped with SIGTERM. The pause is the longest time between two acknowledgements of one of its partitions
from the signal on, until a record is acknowledged that was sent after the end of the process. Then the broker starts
again, and the next round waits until all replicas are in sync. Each round takes the next broker that leads anything.

In the end everything is read: what was acknowledged must be there once, at its offset. The settings of all brokers are
those they come with. Three brokers of Apache Kafka do the same where a start script is at hand (`--kafka-peer`).
"""

import argparse
import itertools
import json
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from bench.failover_clusters import NODES, Brokers, HutongBrokers, KafkaBrokers
from bench.figures import WeightedSamples
from bench.targets import DEFAULT_KAFKA_SCRIPT, scratch_folder

TOPIC: Final = "failover"
PARTITIONS: Final = 6
INTERVAL_S: Final = 0.01
STEADY_S: Final = 2.0
WAIT_S_MAX: Final = 120.0
ANSWER_S: Final = 10.0
_LOOK_S: Final = 0.05
CLIENT: Final[dict[str, Any]] = {
    "log_level": 0,  # that a broker is gone is what is measured
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
}
UNKNOWN_OFFSET: Final = -1
"""Of a record that librdkafka takes for stored by an earlier attempt, whose answer it has not seen."""
WAYS: Final = ("kill", "stop")
Result = TypeVar("Result")


@dataclass(slots=True)
class Acknowledged:
    """The acknowledgements of one partition: their times, and the offset of each value."""

    times_s: list[float] = field(default_factory=list)
    offsets: dict[bytes, int] = field(default_factory=dict)
    newest_sent_s: float = 0.0  # when the newest acknowledged record was sent


class SteadyLoad:
    """Sends a record to every partition every few milliseconds while entered."""

    def __init__(self, bootstrap: str) -> None:
        self.partitions = [Acknowledged() for _ in range(PARTITIONS)]
        self.errors: list[KafkaError] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0, **CLIENT}
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> "SteadyLoad":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        next_s = time.monotonic()
        for number in itertools.count():
            if self._stopping.is_set():
                break
            for partition in range(PARTITIONS):
                self._send(partition, b"%d" % number)
            next_s += INTERVAL_S
            while (left_s := next_s - time.monotonic()) > 0:
                self._producer.poll(left_s)
            self._producer.poll(0)
        self._producer.flush(WAIT_S_MAX)

    def _send(self, partition: int, value: bytes) -> None:
        sent_s = time.monotonic()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.errors.append(error)
                return
            offset = message.offset()
            into = self.partitions[partition]
            into.times_s.append(time.monotonic())
            into.offsets[value] = UNKNOWN_OFFSET if offset is None else offset
            into.newest_sent_s = max(into.newest_sent_s, sent_s)

        self._producer.produce(TOPIC, value, partition=partition, on_delivery=delivered)

    def wait_for_sent_after(self, moment_s: float, partitions: Sequence[int]) -> None:
        """Return when each partition has acknowledged a record that was sent after that moment."""
        until_true(lambda: all(self.partitions[each].newest_sent_s > moment_s for each in partitions), "records taken")

    def pause_s(self, partition: int, since_s: float) -> float:
        """The longest time without an acknowledgement that ended after `since_s`."""
        times = list(self.partitions[partition].times_s)
        return max((later - earlier for earlier, later in pairwise(times) if later > since_s), default=0.0)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of each way to go (default %(default)s)")
    parser.add_argument("--only", choices=WAYS, help="one way to go")
    parser.add_argument(
        "--kafka-peer", type=pathlib.Path, default=DEFAULT_KAFKA_SCRIPT, metavar="SCRIPT",
        help="`SCRIPT start --nodes 3 --port N --dir DIR` prints `ready HOST:PORT,... pid=N,...`; skipped if absent",
    )  # fmt: skip
    parser.add_argument("--no-kafka", action="store_true", help="do not start Apache Kafka")
    parser.add_argument("--no-hutong", action="store_true", help="measure Apache Kafka alone")
    parser.add_argument("--dir", metavar="DIR", help="where brokers keep their data (default: the temporary folder)")
    parser.add_argument("--json", metavar="FILE", help="also write every pause as JSON")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    contenders: dict[str, Callable[[pathlib.Path, ExitStack], Brokers]] = {}
    if not options.no_hutong:
        contenders["hutong"] = HutongBrokers
    if not options.no_kafka and options.kafka_peer.exists():
        contenders["kafka"] = lambda folder, stack: KafkaBrokers(options.kafka_peer, folder, stack)
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for name, started in contenders.items():
        with ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
            brokers = started(folder / name, stack)
            found, wrong = _measure(name, brokers, options)
            rows += found
            problems += [f"{name}: {each}" for each in wrong]
    for name in contenders:
        for way in WAYS:
            _print_row(name, way, [row for row in rows if (row["broker"], row["way"]) == (name, way)])
    for problem in problems:
        print(problem)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"pauses": rows, "problems": problems}, indent=1) + "\n")
    return 1 if problems else 0


def _print_row(name: str, way: str, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    samples = WeightedSamples()
    for row in rows:
        samples.add(row["pause_s"], 1)
    p50, p99, longest = samples.percentiles(0.50, 0.99, 1.0)
    rounds = len({row["round"] for row in rows})
    print(
        f"{name}, {way}: pause p50 {p50 * 1e3:.0f}, p99 {p99 * 1e3:.0f}, longest {longest * 1e3:.0f} ms, of "
        f"{samples.count} partitions in {rounds} rounds"
    )


def _measure(name: str, brokers: Brokers, options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """Every pause, and what is wrong with the records in the end."""
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap, **CLIENT})
    # A broker that has just started may not know all others yet.
    until_true(lambda: len(admin.list_topics(timeout=ANSWER_S).brokers) == NODES, "all brokers are known")
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, NODES)]).values():
        made.result(WAIT_S_MAX)
    rows: list[dict[str, Any]] = []
    victims = itertools.cycle(range(1, NODES + 1))
    with SteadyLoad(brokers.bootstrap) as load:
        for way in WAYS:
            for number in range(options.rounds if options.only in (None, way) else 0):
                rows += _round(name, way, number, brokers, admin, load, victims)
    problems = [f"{len(load.errors)} errors: {load.errors[:3]}"] if load.errors else []
    for partition, acknowledged in enumerate(load.partitions):
        problems += _wrong_in(brokers.bootstrap, partition, acknowledged)
    count = sum(len(acknowledged.offsets) for acknowledged in load.partitions)
    unknown = sum(list(each.offsets.values()).count(UNKNOWN_OFFSET) for each in load.partitions)
    print(
        f"{name}: {count} records acknowledged, {unknown} of them without an offset, {len(problems)} problems",
        file=sys.stderr,
        flush=True,
    )
    return rows, problems


def _round(
    name: str,
    way: str,
    number: int,
    brokers: Brokers,
    admin: AdminClient,
    load: SteadyLoad,
    victims: "itertools.cycle[int]",
) -> list[dict[str, Any]]:
    """One broker goes, and comes back."""
    victim, led = victim_of(whole(admin), victims)
    time.sleep(STEADY_S)
    load.wait_for_sent_after(time.monotonic(), range(PARTITIONS))
    since_s = time.monotonic()
    (brokers.kill if way == "kill" else brokers.stop)(victim)
    load.wait_for_sent_after(time.monotonic(), range(PARTITIONS))
    pauses = {partition: load.pause_s(partition, since_s) for partition in led}
    brokers.start(victim)
    told = ", ".join(f"{pause * 1e3:.0f}" for pause in pauses.values())
    print(f"{name}, {way} {number + 1}: broker {victim}, {told} ms", file=sys.stderr, flush=True)
    return [
        {"broker": name, "way": way, "round": number, "node": victim, "partition": partition, "pause_s": pause}
        for partition, pause in pauses.items()
    ]


def whole(admin: AdminClient) -> ClusterMetadata:
    """The metadata, as soon as every replica of every partition is in sync."""

    def asked() -> ClusterMetadata | None:
        try:
            metadata = admin.list_topics(TOPIC, timeout=ANSWER_S)
        except KafkaException:
            return None
        partitions = metadata.topics[TOPIC].partitions.values()
        is_whole = len(metadata.brokers) == NODES and all(len(each.isrs) == NODES for each in partitions)
        return metadata if is_whole and partitions and all(each.leader > 0 for each in partitions) else None

    return until_true(asked, "all replicas in sync")


def victim_of(metadata: ClusterMetadata, victims: "itertools.cycle[int]") -> tuple[int, list[int]]:
    """The next broker that leads partitions, and these."""
    partitions = metadata.topics[TOPIC].partitions
    while True:
        victim = next(victims)
        led = [number for number, partition in sorted(partitions.items()) if partition.leader == victim]
        if led:
            return victim, led


def _wrong_in(bootstrap: str, partition: int, acknowledged: Acknowledged) -> list[str]:
    """Differences between the acknowledgements of a partition and a read of all of it."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, **CLIENT})
    found: dict[bytes, list[int]] = {}
    try:
        _, end = reader.get_watermark_offsets(TopicPartition(TOPIC, partition), WAIT_S_MAX)
        reader.assign([TopicPartition(TOPIC, partition, 0)])
        give_up, newest = time.monotonic() + WAIT_S_MAX, -1
        while newest < end - 1 and time.monotonic() < give_up:
            for message in reader.consume(1000, 0.1):
                offset, value = message.offset(), message.value()
                if message.error() is None and offset is not None and isinstance(value, bytes):
                    found.setdefault(value, []).append(offset)
                    newest = offset
    finally:
        reader.close()
    wrong = [
        f"partition {partition}: {value!r} was acknowledged at {offset}, found at {found.get(value, [])}"
        for value, offset in acknowledged.offsets.items()
        if len(found.get(value, [])) != 1 or offset not in (UNKNOWN_OFFSET, found[value][0])
    ]
    return [*wrong[:3], f"partition {partition}: {len(wrong)} records are wrong"] if wrong else []


def until_true(step: Callable[[], Result | None], what: str) -> Result:
    give_up = time.monotonic() + WAIT_S_MAX
    while True:
        result = step()
        if result:
            return result
        if time.monotonic() > give_up:
            raise TimeoutError(f"{what}: not within {WAIT_S_MAX:g} s")
        time.sleep(_LOOK_S)
