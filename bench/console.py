"""Produce and consume with and without a console that follows and searches: `python -m bench console [--seconds 10]`.

Strategy: one node with a console, one topic with records to search. A producer and a consumer run as fast as they can,
in turns: alone, and while a browser's streams follow the topic live and search all of it, again and again. Pairs of
turns alternate, which comes first as well. The medians of both and of the pairs' ratios are shown, with the processor
time of the node for each record, and how much of the topic the searches got to see.
"""

import argparse
import json
import pathlib
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from bench.figures import cpu_seconds, memory
from bench.processes import ReadyProcess
from bench.raw_client import create_topic
from bench.targets import hutong_command, scratch_folder

TOPIC = "watched"
VALUE = b'{"order": 17, "customer": "somebody", "note": "' + b"x" * 200 + b'"}'
SEARCHED_RECORDS = 300_000
WARM_UP_S = 3.0


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench console", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of one turn")
    parser.add_argument("--pairs", type=int, default=5, help="of turns with and without a console at work")
    parser.add_argument("--records-per-s", type=int, default=0, help="of the producer; 0 (the default): all it can")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    return parser.parse_args(words)


@dataclass
class Turn:
    """Rates of one turn."""

    produced: float
    consumed: float
    node_us: float  # of the node's processor time for each record that was produced


@dataclass
class Watched:
    """The sights of the console's streams."""

    events: int = 0
    searched: int = 0
    seen: int = 0
    shown: int = 0
    failures: list[str] = field(default_factory=list)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
        command = [*hutong_command(folder / "data"), "--console", "127.0.0.1:0"]
        node = stack.enter_context(ReadyProcess(command, log_path=str(folder / "node.log")))
        kafka, console, pid = node.fields["kafka"], node.fields["console"], node.process.pid
        create_topic(kafka, TOPIC, records=0)
        _fill(kafka)
        _turn(kafka, pid, WARM_UP_S, options.records_per_s)
        alone: list[Turn] = []
        watched: list[Turn] = []
        sights = Watched()
        for pair in range(options.pairs):
            for is_watched in (pair % 2 == 0, pair % 2 == 1):
                if is_watched:
                    with _watching(console, sights):
                        watched.append(_turn(kafka, pid, options.seconds, options.records_per_s))
                else:
                    alone.append(_turn(kafka, pid, options.seconds, options.records_per_s))
        _show(alone, watched, sights, options.pairs * options.seconds, memory(pid).rss_mb)
    return 0


def _fill(kafka: str) -> None:
    client = Producer({"bootstrap.servers": kafka, "linger.ms": 5, "queue.buffering.max.messages": 500_000})
    for _ in range(SEARCHED_RECORDS):
        client.produce(TOPIC, VALUE)
    assert client.flush(60) == 0


def _turn(kafka: str, pid: int, seconds: float, records_per_s: int) -> Turn:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "bench", "enable.auto.commit": False})
    place = TopicPartition(TOPIC, 0)
    consumer.assign([TopicPartition(TOPIC, 0, consumer.get_watermark_offsets(place, 10)[1])])
    ended = threading.Event()
    consumed: list[int] = []

    def consume() -> None:
        found = 0
        while not ended.is_set():
            found += len(consumer.consume(5_000, 0.1))
        consumed.append(found)

    reading = threading.Thread(target=consume)
    used_s, begin_s = cpu_seconds(pid), time.monotonic()
    reading.start()
    produced = _produce(kafka, begin_s, seconds, records_per_s)
    took_s = time.monotonic() - begin_s
    ended.set()
    reading.join()
    consumer.close()
    return Turn(produced / took_s, consumed[0] / took_s, (cpu_seconds(pid) - used_s) / produced * 1e6)


def _produce(kafka: str, begin_s: float, seconds: float, records_per_s: int) -> int:
    """The number of records that were acknowledged."""
    client = Producer({"bootstrap.servers": kafka, "linger.ms": 5, "acks": "all"})
    produced = 0
    while (passed_s := time.monotonic() - begin_s) < seconds:
        if records_per_s and produced > records_per_s * passed_s:
            client.poll(0.005)
            continue
        for _ in range(500):
            try:
                client.produce(TOPIC, VALUE)
            except BufferError:
                client.poll(0.01)
                continue
            produced += 1
        client.poll(0)
    assert client.flush(30) == 0
    return produced


@contextmanager
def _watching(console: str, sights: Watched) -> Iterator[None]:
    """A browser's session with a live tail and one search after the other."""
    cookie = _session(console)
    ended = threading.Event()
    path = f"http://{console}/api/topics/{TOPIC}/messages"
    threads = [
        threading.Thread(target=_read, args=(f"{path}/tail", cookie, ended, sights)),
        threading.Thread(target=_read, args=(f"{path}/search?q=nowhere&order=oldest", cookie, ended, sights)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _session(console: str) -> str:
    with urllib.request.urlopen(f"http://{console}/api/session") as answer:
        return str(answer.headers["Set-Cookie"]).partition(";")[0]


def _read(url: str, cookie: str, ended: threading.Event, sights: Watched) -> None:
    while not ended.is_set():
        name, searched = "", 0
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Cookie": cookie}), timeout=30) as answer:
            for line in answer:
                if ended.is_set():
                    break
                if line.startswith(b"event: "):
                    name = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    data = json.loads(line[6:])
                    sights.events += 1
                    if name == "records":
                        sights.seen = data["figures"]["seen"]
                        sights.shown = data["figures"]["shown"]
                    elif name == "failed":
                        sights.failures.append(data["message"])
                    else:
                        searched = data["looked_at"]
        sights.searched += searched


def _show(alone: list[Turn], watched: list[Turn], sights: Watched, watched_s: float, resident_mb: float) -> None:
    table = Table("", "produced a second", "consumed a second", "node's processor time each, us")
    for name, turns in (("alone", alone), ("with a console at work", watched)):
        figures = [
            statistics.median([getattr(turn, each) for turn in turns]) for each in ("produced", "consumed", "node_us")
        ]
        table.add_row(name, f"{figures[0]:,.0f}", f"{figures[1]:,.0f}", f"{figures[2]:,.2f}")
    ratios = [
        [
            getattr(with_console, each) / getattr(without, each)
            for without, with_console in zip(alone, watched, strict=True)
        ]
        for each in ("produced", "consumed")
    ]
    console = Console()
    console.print(table)
    told = [f"{statistics.median(each):.3f} ({min(each):.3f} to {max(each):.3f})" for each in ratios]
    console.print(f"with to without, median of pairs: produced {told[0]}, consumed {told[1]}")
    console.print(f"searches looked at {sights.searched / watched_s:,.0f} records/s; {sights.events} events")
    console.print(
        f"the last tail showed {sights.shown:,} of {sights.seen:,} records; failures: {sights.failures or 'none'}"
    )
    console.print(f"memory of the node: {resident_mb:,.0f} MB")
