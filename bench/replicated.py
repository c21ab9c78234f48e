"""Three nodes of Hutong next to three brokers of Apache Kafka: `python -m bench replicated`.

Strategy: librdkafka alone, for it follows leaders. Both clusters run on the same machine, and turns alternate; each has
a topic of six partitions with three replicas, and every record waits for all in-sync replicas (acks=all). Hutong has it
on three disks then, Kafka in three memories. Single records have one request each: linger 0, batches of one, and as
many requests in flight as the row says. The raw generator of `bench.load` sends such requests, too, to one leader.
Medians of the turns are shown, and how many times Kafka's they are. On a machine that does other work, compare the
processor time of the nodes rather than the rates.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.figures import cpu_seconds, family, memory
from bench.load import DEEP_64, PING_PONG, WIDE_100, Load, Shape, run_load
from bench.processes import ReadyProcess
from bench.raw_client import BrokerError
from bench.targets import DEFAULT_KAFKA_SCRIPT

NODES: Final = 3
PARTITIONS: Final = 6
CHUNK: Final = 1_000
SILENCE_S_MAX: Final = 60.0
RAW_S: Final = 3.0
WARM_UP_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that runs. `pid` is the parent of all its nodes, whose command lines have `node_word`."""

    name: str
    bootstrap: str
    pid: int
    node_word: str

    def nodes(self) -> list[int]:
        """The processes of the nodes alone, without ZooKeeper's and those that start others."""
        commands = {pid: pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in family(self.pid)}
        return [pid for pid, words in commands.items() if self.node_word.encode() in words]

    def create_topic(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, NODES)])[topic].result(SILENCE_S_MAX)


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of load. `in_flight` 0 is bulk: as much as librdkafka puts together. With a shape, the client is raw."""

    name: str
    value_bytes: int
    records: int
    in_flight: int = 0
    shape: Shape | None = None


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench replicated", description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="of each row, after a warm-up (default %(default)s)")
    parser.add_argument("--records", type=int, default=500_000, help="of 100 B in bulk (default %(default)s)")
    parser.add_argument("--kafka-peer", type=pathlib.Path, default=DEFAULT_KAFKA_SCRIPT, metavar="SCRIPT")
    options = parser.parse_args(words)
    rows = [
        Row("100 B in bulk, records/s", 100, options.records),
        Row("1 KiB in bulk, records/s", 1024, options.records // 5),
        Row("single records, 1 in flight, requests/s", 100, max(options.records // 500, 1), 1),
        Row("single records, 64 in flight, requests/s", 100, max(options.records // 50, 1), 64),
        *[
            Row(f"raw client, {shape.name}, requests/s", 100, 0, shape=shape)
            for shape in (PING_PONG, DEEP_64, WIDE_100)
        ],
    ]
    with ExitStack() as exit_stack:
        folder = pathlib.Path(exit_stack.enter_context(tempfile.TemporaryDirectory(prefix="hutong-bench-")))
        clusters = [_start_hutong(folder, exit_stack)]
        if options.kafka_peer.exists():
            clusters.append(_start_kafka(options.kafka_peer, folder, exit_stack))
        _print_table(clusters, {row: _measure(row, clusters, options.turns) for row in rows})
    return 0


def _start_hutong(folder: pathlib.Path, exit_stack: ExitStack) -> Cluster:
    command = [sys.executable, "-m", "hutong", "cluster", "dev", "--nodes", str(NODES), "--port", "0"]
    environment = {"XDG_RUNTIME_DIR": str(folder)}  # next to a cluster that its user has already
    process = ReadyProcess(
        [*command, "--data-dir", str(folder / "hutong")], log_path=str(folder / "hutong.log"), environment=environment
    )
    exit_stack.callback(process.terminate)
    process.start()
    return Cluster("hutong", process.fields["kafka"], process.process.pid, "hutong.cli.cluster.dev_node")


def _start_kafka(script: pathlib.Path, folder: pathlib.Path, exit_stack: ExitStack) -> Cluster:
    process = ReadyProcess([str(script), "start", "--nodes", str(NODES)], log_path=str(folder / "kafka.log"))
    exit_stack.callback(process.terminate)
    process.start(deadline_s=120)
    return Cluster("kafka", process.fields["0"], process.process.pid, "kafka.Kafka")


def _measure(row: Row, clusters: Sequence[Cluster], turns: int) -> dict[str, list[tuple[float, float]]]:
    """Rates and processor seconds for each million records, by cluster. The first turn warms up, and is left out.

    A raw client has sent its first requests to the topic before its time and the nodes' begin.
    """
    found: dict[str, list[tuple[float, float]]] = {cluster.name: [] for cluster in clusters}
    for turn in range(turns + 1):
        for cluster in clusters if turn % 2 else reversed(clusters):
            topic = f"bench-{time.time_ns()}"
            cluster.create_topic(topic)
            if row.shape is not None:
                _raw_load(row.shape, cluster, topic, WARM_UP_S)
            begun_cpu = cpu_seconds(cluster.pid)
            if row.shape is None:
                rate, records = _rate(row, cluster, topic), row.records
            else:
                load = _raw_load(row.shape, cluster, topic)
                rate, records = load.requests_per_s, load.requests
            cpu = (cpu_seconds(cluster.pid) - begun_cpu) * 1e6 / records
            if turn:
                found[cluster.name].append((rate, cpu))
    return found


def _rate(row: Row, cluster: Cluster, topic: str) -> float:
    """Records a second, all of which were acknowledged. Raises `BrokerError` when one is not."""
    errors: list[KafkaError] = []
    done = 0

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal done
        done += 1
        if error:
            errors.append(error)

    settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 2}
    settings |= {"queue.buffering.max.messages": 1_000_000}
    if row.in_flight:
        settings |= {"linger.ms": 0, "batch.num.messages": 1}
    producer = Producer(settings)
    producer.list_topics(topic, SILENCE_S_MAX)
    value = bytes(row.value_bytes)
    for partition in range(PARTITIONS):  # connections are made before the clock runs
        producer.produce(topic, value, partition=partition)
    producer.flush(SILENCE_S_MAX)
    begun = time.perf_counter()
    if row.in_flight:
        _one_by_one(row, producer, topic, value, delivered, lambda: done)
    else:
        for first in range(0, row.records, CHUNK):
            chunk = [{"value": value, "callback": delivered}] * CHUNK
            while producer.produce_batch(topic, chunk, partition=(first // CHUNK) % PARTITIONS) < CHUNK:
                producer.poll(0.01)  # the queue is full, which the bound of records keeps from happening
            producer.poll(0)
    producer.flush(SILENCE_S_MAX)
    elapsed = time.perf_counter() - begun
    if errors or done < row.records:
        raise BrokerError(f"{cluster.name}: {done} of {row.records} records acknowledged, {errors[:1]}")
    return row.records / elapsed


def _raw_load(shape: Shape, cluster: Cluster, topic: str, seconds: float = RAW_S, attempts: int = 2) -> Load:
    """A turn of the raw client against the leader of one partition, with acks=all."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    producer.produce(topic, b"", partition=0)
    producer.flush(SILENCE_S_MAX)  # it has a leader then, which takes records
    metadata = producer.list_topics(topic, SILENCE_S_MAX)
    leader = metadata.brokers[metadata.topics[topic].partitions[0].leader]
    try:
        address = f"{leader.host}:{leader.port}"
        return run_load(address, topic, shape, acks=-1, seconds=seconds, warm_up_s=0.0)
    except BrokerError:
        # Soon after its start a cluster lets preferred leaders lead, and the raw client does not follow them.
        if not attempts:
            raise
        return _raw_load(shape, cluster, topic, seconds, attempts - 1)


def _one_by_one(
    row: Row,
    producer: Producer,
    topic: str,
    value: bytes,
    delivered: Callable[[KafkaError | None, Message], None],
    done: Callable[[], int],
) -> None:
    for number in range(row.records):
        while number - done() >= row.in_flight:
            producer.poll(0.1)
        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=delivered)
        producer.poll(0)


def _print_table(clusters: Sequence[Cluster], found: dict[Row, dict[str, list[tuple[float, float]]]]) -> None:
    names = [cluster.name for cluster in clusters]
    print(f"| acks=all, {NODES} nodes | {' | '.join(names)} | times |")
    print(f"|---|{'---:|' * (len(names) + 1)}")
    for row, by_name in found.items():
        rates = [statistics.median(rate for rate, _ in by_name[name]) for name in names]
        _print_row(row.name, rates, "{:,.0f}")
        if not row.in_flight:
            cpu = [statistics.median(cpu for _, cpu in by_name[name]) for name in names]
            _print_row(f"{row.name.rpartition(',')[0]}: s of processor for a million", cpu, "{:.2f}")
    nodes = [sum(memory(pid).rss_mb for pid in cluster.nodes()) for cluster in clusters]
    _print_row("memory of the nodes, MB", nodes, "{:,.0f}")
    resident = [memory(cluster.pid).rss_mb for cluster in clusters]
    _print_row("memory of all processes, ZooKeeper's too, MB", resident, "{:,.0f}")


def _print_row(name: str, figures: Sequence[float], form: str) -> None:
    ratio = f"{figures[0] / figures[1]:.2f}" if len(figures) > 1 and figures[1] else ""
    print(f"| {name} | {' | '.join(form.format(each) for each in figures)} | {ratio} |")
