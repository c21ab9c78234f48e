"""Records over HTTP next to Kafka's own protocol: `python -m bench http [--seconds 5] [--only TEXT]`.

Strategy: one node with a registry, one topic for what is written and one for each form that is read. Clients of HTTP
keep connections open and send the next request with the last answer; those of Kafka are as many producers, each of
which waits for its record, or as many consumers. Turns alternate, and medians of their rates are
shown, with the processor time of the node for each record. The client of HTTP only looks for the end of an answer, so
that it costs little.
"""

import argparse
import asyncio
import json
import pathlib
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from bench.figures import cpu_seconds, memory
from bench.processes import ReadyProcess
from bench.raw_client import create_topic
from bench.targets import hutong_command, scratch_folder

TOPIC = "records"
VALUE = "x" * 100
TURNS = 3
BATCH = 100
RECORDS_READ = 100_000
PERSON = {"name": "x" * 80, "number": 7}
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Person",
        "fields": [{"name": "name", "type": "string"}, {"name": "number", "type": "int"}],
    }
)
Job = tuple[int, Callable[[], int]]
"""The records of each request, and the work of one turn, which gives the number of requests."""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench http", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of one turn")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with this text in their names")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
        listeners = ["--http", "127.0.0.1:0", "--schema-registry", "127.0.0.1:0"]
        command = [*hutong_command(folder / "data"), *listeners]
        node = stack.enter_context(ReadyProcess(command, log_path=str(folder / "node.log")))
        kafka, http = node.fields["kafka"], node.fields["http"]
        topics = f"/v3/clusters/{_cluster(http)}/topics"
        every = {**writing(kafka, http, topics, options), **reading(kafka, http, topics, options)}
        jobs = {name: job for name, job in every.items() if options.only in name}
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
        for _ in range(TURNS):
            for name, (records, work) in jobs.items():
                figures[name].append(turn(node.process.pid, records, work))
        show(figures, memory(node.process.pid).rss_mb)
    return 0


def writing(kafka: str, http: str, topics: str, options: argparse.Namespace) -> dict[str, Job]:
    """Jobs that produce, without a schema and with one."""
    create_topic(kafka, TOPIC, records=0)
    records = f"{topics}/{TOPIC}/records"
    text = _body({"type": "STRING", "data": VALUE})
    as_json = _body({"type": "JSON", "data": PERSON})
    with_schema = _body({"type": "AVRO", "schema": SCHEMA, "data": PERSON})
    (made,) = _posted(http, records, with_schema)
    by_id = _body({"schema_id": made["value"]["schema_id"], "data": PERSON})
    ask_with = {
        "text": text,
        "JSON": as_json,
        "Avro by id": by_id,
        "Avro by text": with_schema,
    }
    one = {
        f"HTTP, one record: {name}": (1, partial(ask, http, post(records, body), options))
        for name, body in ask_with.items()
    }
    several = {
        f"HTTP, {BATCH} records: {name}": (BATCH, partial(ask, http, post(records, body * BATCH), options))
        for name, body in ask_with.items()
    }
    return {
        **one,
        "Kafka, one record": (1, partial(produce, kafka, 1, options)),
        **several,
        f"Kafka, {BATCH} records": (BATCH, partial(produce, kafka, BATCH, options)),
        "HTTP, list of topics": (1, partial(ask, http, get(topics), options)),
    }


def reading(kafka: str, http: str, topics: str, options: argparse.Namespace) -> dict[str, Job]:
    """Jobs that read `BATCH` records with each request."""
    jobs: dict[str, Job] = {}
    values = {"json": {"type": "JSON", "data": PERSON}, "schema": {"type": "AVRO", "schema": SCHEMA, "data": PERSON}}
    for form, value in values.items():
        create_topic(kafka, f"read-{form}", records=0)
        _posted(http, f"{topics}/read-{form}/records", _body(value) * BATCH)
        path = f"{topics}/read-{form}/partitions/0/records?offset=0&max_records={BATCH}&format={form}"
        jobs[f"HTTP, {BATCH} records read: format={form}"] = (BATCH, partial(ask, http, get(path), options))
    create_topic(kafka, "read-log", records=0)
    producer = Producer({"bootstrap.servers": kafka, "queue.buffering.max.messages": RECORDS_READ})
    for _ in range(RECORDS_READ):
        producer.produce("read-log", VALUE)
    assert producer.flush(60) == 0
    jobs[f"Kafka, {BATCH} records read"] = (BATCH, partial(consume, kafka, "read-log", options))
    return jobs


def _body(value: object) -> bytes:
    return json.dumps({"value": value}).encode()


def _posted(http: str, path: str, body: bytes) -> list[Any]:
    request = urllib.request.Request(f"http://{http}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return [json.loads(line) for line in answer.read().splitlines()]


def turn(pid: int, records: int, work: Callable[[], int]) -> tuple[float, float]:
    """Records a second, and microseconds of the node's processor time for each."""
    used_s, begin_s = cpu_seconds(pid), time.monotonic()
    done = work() * records
    return done / (time.monotonic() - begin_s), (cpu_seconds(pid) - used_s) / done * 1e6


def _cluster(http: str) -> str:
    with urllib.request.urlopen(f"http://{http}/v3/clusters") as answer:
        return str(json.load(answer)["data"][0]["cluster_id"])


def post(path: str, body: bytes) -> bytes:
    fields = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"POST {path} HTTP/1.1\r\n{fields}\r\n\r\n".encode() + body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def ask(address: str, request: bytes | Callable[[], bytes], options: argparse.Namespace) -> int:
    """Requests that were answered."""
    next_request = request if callable(request) else lambda: request
    host, _, port = address.rpartition(":")

    async def connection(until_s: float) -> int:
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 22)
        done = 0
        while time.monotonic() < until_s:
            writer.write(next_request())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            done += 1
        writer.close()
        return done

    async def all_connections() -> int:
        until_s = time.monotonic() + options.seconds
        return sum(await asyncio.gather(*[connection(until_s) for _ in range(options.connections)]))

    return asyncio.run(all_connections())


def produce(
    address: str, records: int, options: argparse.Namespace, topic: str = TOPIC, value: str | bytes = VALUE
) -> int:
    """The number of rounds, each with this number of records, that were acknowledged."""
    until_s = time.monotonic() + options.seconds
    rounds: list[int] = []

    def producer() -> None:
        client = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 0})
        done = 0
        while time.monotonic() < until_s:
            for _ in range(records):
                client.produce(topic, value)
            assert client.flush(30) == 0
            done += 1
        rounds.append(done)

    _on_threads(producer, options)
    return sum(rounds)


def consume(address: str, topic: str, options: argparse.Namespace) -> int:
    """The number of rounds, each of which has read `BATCH` records, from the topic's beginning to its end and again."""
    until_s = time.monotonic() + options.seconds
    rounds: list[int] = []

    def consumer() -> None:
        client = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
        client.assign([TopicPartition(topic, 0, 0)])
        done = 0
        while time.monotonic() < until_s:
            read = len(client.consume(BATCH, 10))
            while read < BATCH:
                read += len(client.consume(BATCH - read, 10))
            done += 1
            # librdkafka's seek takes tens of milliseconds.
            if done % (RECORDS_READ // BATCH) == 0:
                client.seek(TopicPartition(topic, 0, 0))
        client.close()
        rounds.append(done)

    _on_threads(consumer, options)
    return sum(rounds)


def _on_threads(work: Callable[[], None], options: argparse.Namespace) -> None:
    threads = [threading.Thread(target=work) for _ in range(options.connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def show(figures: dict[str, list[tuple[float, float]]], resident_mb: float) -> None:
    table = Table("", "a second", "node's processor time each, us", title=f"medians of {TURNS} turns")
    for name, turns in figures.items():
        rate = statistics.median([turn[0] for turn in turns])
        table.add_row(name, f"{rate:,.0f}", f"{statistics.median([turn[1] for turn in turns]):,.0f}")
    console = Console()
    console.print(table)
    console.print(f"memory of the node: {resident_mb:,.0f} MB")
