"""The cost of backlog readers to readers of the newest records.

Strategy: ten tail readers, each with a topic of its own and a fetch that waits; records go to them in turn at a fixed
rate, independent of earlier ones (an open loop, so a stall shows in every record that it delays). Their latency, from
the send of a record to its arrival, is taken alone, and then again while ten backlog groups read gigabytes that the
machine no longer has in memory: each group starts at another tenth of the log and goes round; whenever all of it was
read together, it is dropped from the page cache again.

Groups are raw connections with a client id each, by which a broker may tell them apart. They live in one process of
low priority, since elsewhere they would run on machines of their own. Where the broker's folder is not known nothing is
dropped, and the table says what came from the disk: the figures of /proc/PID/io.
"""

import multiprocessing
import os
import pathlib
import select
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from typing import Final

from bench.compare import Figure, Measurement
from bench.figures import WeightedSamples, family
from bench.kafka_bytes import (
    CLIENT_ID,
    FetchLayout,
    ProduceReplyLayout,
    fetch_request,
    from_client,
    produce_request,
    record_batch,
)
from bench.raw_client import BrokerError, RawConnection
from bench.targets import Target

GROUPS: Final = 10
TAIL_READERS: Final = 10
RECORDS_PER_S: Final = 500
RECORDS_PER_BATCH: Final = 63
VALUE: Final = bytes(1024)
TAIL_VALUE: Final = bytes(100)
FILL_WINDOW: Final = 32
REPLY_BYTES: Final = 4 << 20
SILENCE_S_MAX: Final = 30.0
LOW_PRIORITY: Final = 10
GIGABYTE: Final = 10**9
_BATCH_OVERHEAD: Final = 12  # base offset and length, which does not count them

ALONE_P50: Final = Figure("alone, p50", "ms", False, 3)
ALONE_P99: Final = Figure("alone, p99", "ms", False, 3)
WITH_P50: Final = Figure("with ten backlog groups, p50", "ms", False, 3)
WITH_P99: Final = Figure("with ten backlog groups, p99", "ms", False, 3)
RATIO: Final = Figure("p99 with / p99 alone", "", False)
BACKLOG_MB: Final = Figure("backlog groups together", "MB/s", True, 0)
FROM_DISK: Final = Figure("of that from the disk", "MB/s", None, 0)


def measurements(targets: Sequence[Target], *, gigabytes: float, seconds: float, turns: int) -> list[Measurement]:
    brokers = [target for target in targets if not target.is_ceiling]
    filled: dict[str, tuple[str, int]] = {}
    name = f"tail readers next to {GROUPS} backlog groups, {gigabytes:g} GB cold"
    return [Measurement(name, partial(measure, filled, gigabytes, seconds), brokers, turns)]


def measure(
    filled: dict[str, tuple[str, int]], gigabytes: float, seconds: float, target: Target, turn: int
) -> dict[Figure, float]:
    if target.name not in filled:
        topic = f"backlog-{time.time_ns()}"
        target.create_topic(topic)
        filled[target.name] = topic, fill(target.bootstrap, topic, int(gigabytes * GIGABYTE))
    topic, end_offset = filled[target.name]
    topics = [f"tail-{turn}-{time.time_ns()}-{number}" for number in range(TAIL_READERS)]
    for name in topics:
        target.create_topic(name)
    alone = tail_latency(target.bootstrap, topics, seconds)
    with BacklogGroups(target, topic, end_offset, int(gigabytes * GIGABYTE)) as groups:
        loaded = tail_latency(target.bootstrap, topics, seconds)
    alone_p50, alone_p99 = alone.percentiles(0.50, 0.99)
    with_p50, with_p99 = loaded.percentiles(0.50, 0.99)
    return {
        ALONE_P50: alone_p50 * 1e3,
        ALONE_P99: alone_p99 * 1e3,
        WITH_P50: with_p50 * 1e3,
        WITH_P99: with_p99 * 1e3,
        RATIO: with_p99 / alone_p99,
        BACKLOG_MB: groups.bytes_read / groups.seconds / 1e6,
        FROM_DISK: groups.disk_bytes / groups.seconds / 1e6,
    }


def fill(bootstrap: str, topic: str, size: int, partition: int = 0) -> int:
    """Produces `size` bytes of records of 1 KiB to a partition; its end offset."""
    batch, layout = record_batch([VALUE] * RECORDS_PER_BATCH), ProduceReplyLayout.of(topic)
    request = produce_request(topic, batch, partition=partition)
    batches = max(1, size // len(request))
    base_offset = 0
    with RawConnection(bootstrap) as connection:
        for number in range(batches + FILL_WINDOW):
            if number < batches:
                connection.send(request)
            if number >= FILL_WINDOW and number - FILL_WINDOW < batches:
                reply = connection.receive()
                if layout.error_code(reply):
                    raise BrokerError(f"{topic}: error {layout.error_code(reply)}")
                base_offset = layout.base_offset(reply)
    return base_offset + RECORDS_PER_BATCH


def tail_latency(bootstrap: str, topics: Sequence[str], seconds: float) -> WeightedSamples:
    """Seconds from the send of each record to its arrival, over all topics."""
    with RawConnection(bootstrap) as producer, select.epoll() as poller:
        tails = [_Tail(bootstrap, topic) for topic in topics]
        by_descriptor = {tail.connection.socket.fileno(): tail for tail in tails}
        try:
            for descriptor in (producer.socket.fileno(), *by_descriptor):
                poller.register(descriptor, select.EPOLLIN)
            _run_tails(producer, tails, by_descriptor, poller, seconds)
        finally:
            for tail in tails:
                tail.connection.close()
    return WeightedSamples.joined(tail.samples for tail in tails)


def _run_tails(
    producer: RawConnection,
    tails: Sequence["_Tail"],
    by_descriptor: dict[int, "_Tail"],
    poller: select.epoll,
    seconds: float,
) -> None:
    """Sends at the fixed rate until the time is over, then waits for what is on its way."""
    begun = time.perf_counter()
    sent, unanswered = 0, deque[_Tail]()
    while True:
        now = time.perf_counter()
        is_over = now - begun >= seconds
        while not is_over and begun + sent / RECORDS_PER_S <= now:
            tail = tails[sent % len(tails)]
            tail.sent_at.append(time.perf_counter())
            producer.send(tail.produce)
            unanswered.append(tail)
            sent += 1
        if is_over and not unanswered and not any(tail.sent_at for tail in tails):
            return
        wait_s = SILENCE_S_MAX if is_over else max(0.0, begun + sent / RECORDS_PER_S - now)
        events = poller.poll(wait_s)
        if is_over and not events:
            raise BrokerError(f"records on their way, and no reply for {SILENCE_S_MAX:.0f} s")
        for descriptor, _ in events:
            if descriptor in by_descriptor:
                by_descriptor[descriptor].receive()
            else:
                unanswered.popleft().check_produced(producer.receive())


class _Tail:
    """A topic of one partition with one record, and a reader that waits for the next."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.connection = RawConnection(bootstrap)
        self.samples = WeightedSamples()
        self.sent_at: deque[float] = deque()  # of the records that did not arrive yet
        self.produce = produce_request(topic, record_batch([TAIL_VALUE]))
        self._fetch = bytearray(fetch_request(topic, 0, wait_ms=30_000))
        self._produce_layout = ProduceReplyLayout.of(topic)
        self._layout = FetchLayout.of(topic)
        self._offset = 0
        self._ask()
        while True:  # what is there from before
            self._take(self.connection.receive())
            self._ask(wait_ms=1)
            reply = self.connection.receive()
            if not self._layout.records(reply):
                break
            self._take(reply)
        self._ask()

    def check_produced(self, reply: bytes) -> None:
        if self._produce_layout.error_code(reply):
            raise BrokerError(f"produce: error {self._produce_layout.error_code(reply)}")

    def receive(self) -> None:
        """Times what arrived, and waits for the next."""
        reply = self.connection.receive()
        now = time.perf_counter()
        for _ in range(self._take(reply)):
            self.samples.add(now - self.sent_at.popleft(), 1)
        self._ask()

    def _take(self, reply: bytes) -> int:
        """The number of records received."""
        if self._layout.error_code(reply):
            raise BrokerError(f"fetch: error {self._layout.error_code(reply)}")
        records = self._layout.records(reply)
        first, self._offset = self._offset, _end_offset(memoryview(records), self._offset)
        return self._offset - first

    def _ask(self, wait_ms: int = 30_000) -> None:
        at = self._layout.offset_at
        self._fetch[at : at + 8] = self._offset.to_bytes(8, "big")
        self._fetch[_WAIT_AT : _WAIT_AT + 4] = wait_ms.to_bytes(4, "big")
        self.connection.send(bytes(self._fetch))


_WAIT_AT: Final = 4 + 10 + len(b"bench") + 4  # behind the frame's size, its header and the replica id


def _end_offset(records: memoryview, offset: int) -> int:
    """The offset behind the last whole batch, which must follow on `offset`."""
    at = 0
    while len(records) - at >= 61:
        size = _BATCH_OVERHEAD + int.from_bytes(records[at + 8 : at + 12], "big")
        if at + size > len(records):
            break
        last = int.from_bytes(records[at : at + 8], "big") + int.from_bytes(records[at + 23 : at + 27], "big")
        if last < offset:
            raise BrokerError(f"offset {last} came where {offset} was next")
        offset = last + 1
        at += size
    return offset


class BacklogGroups:
    """The readers of the backlog in a process of their own, while entered."""

    def __init__(self, target: Target, topic: str, end_offset: int, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pid = target.pid
        self._counter: Synchronized[int] = context.Value("q", 0)  # type: ignore[assignment]
        self._stop = context.Event()
        folder = str(target.data_dir) if target.data_dir else None
        self._process = context.Process(
            target=read_backlog,
            args=(target.bootstrap, topic, end_offset, size, folder, self._counter, self._stop),
            daemon=True,
        )
        self.bytes_read = 0
        self.disk_bytes = 0
        self.seconds = 0.0

    def __enter__(self) -> "BacklogGroups":
        self._process.start()
        give_up = time.monotonic() + SILENCE_S_MAX
        while not self._counter.value:
            if not self._process.is_alive() or time.monotonic() > give_up:
                raise BrokerError("the backlog groups read nothing")
            time.sleep(0.01)
        self._begun = time.monotonic(), self._counter.value, self._disk_bytes()
        return self

    def __exit__(self, *_: object) -> None:
        begun_s, begun_bytes, begun_disk = self._begun
        self.seconds = time.monotonic() - begun_s
        self.bytes_read = self._counter.value - begun_bytes
        self.disk_bytes = self._disk_bytes() - begun_disk
        is_sound = self._process.is_alive()
        self._stop.set()
        self._process.join(SILENCE_S_MAX)
        if not is_sound:
            raise BrokerError("the backlog groups ended before their time")

    def _disk_bytes(self) -> int:
        if self._pid is None:
            return 0
        texts = [pathlib.Path(f"/proc/{member}/io").read_text() for member in family(self._pid)]
        return sum(
            int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith("read_bytes")
        )


def read_backlog(
    bootstrap: str,
    topic: str,
    end_offset: int,
    size: int,
    folder: str | None,
    counter: "Synchronized[int]",
    stop: Event,
) -> None:
    """The process of the groups: reads until `stop`."""
    os.nice(LOW_PRIORITY)
    dropped_at = 0
    drop_from_cache(folder)
    with select.epoll() as poller:
        groups = {}
        for number in range(GROUPS):
            offset = end_offset * number // GROUPS
            group = BacklogReader(bootstrap, topic, end_offset, offset, b"back%d" % number)
            groups[group.connection.socket.fileno()] = group
            poller.register(group.connection.socket.fileno(), select.EPOLLIN)
        while not stop.is_set():
            for descriptor, _ in poller.poll(0.1):
                counter.value += groups[descriptor].receive()
            if counter.value - dropped_at > size:
                dropped_at = counter.value
                drop_from_cache(folder)


def drop_from_cache(folder: str | None) -> None:
    """Have the machine forget what it holds of the files below a folder, as far as it is on the disk."""
    for path in _files(folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _files(folder: str | None) -> Iterator[pathlib.Path]:
    if folder is not None:
        yield from (path for path in pathlib.Path(folder).rglob("*") if path.is_file())


class BacklogReader:
    """One reader that asks for a mebibyte at a time, as clients do, and goes round."""

    def __init__(self, bootstrap: str, topic: str, end_offset: int, offset: int, client_id: bytes = CLIENT_ID) -> None:
        self.connection = RawConnection(bootstrap)
        self.fetches = 0
        self._buffer = memoryview(bytearray(REPLY_BYTES))
        self._filled = 0
        self._fetch = bytearray(from_client(fetch_request(topic, 0), client_id))
        self._layout = FetchLayout.of(topic)
        self._end_offset = end_offset
        self._offset = offset
        self._ask()

    def receive(self) -> int:
        """Takes what arrived; returns how many bytes that were."""
        got = self.connection.socket.recv_into(self._buffer[self._filled :])
        if not got:
            raise ConnectionError("closed by the broker")
        self._filled += got
        if self._filled >= 4 and self._filled == 4 + int.from_bytes(self._buffer[:4], "big"):
            self._take(self._buffer[: self._filled])
            self._filled = 0
            self.fetches += 1
            self._ask()
        return got

    def _take(self, reply: memoryview) -> None:
        layout = self._layout
        head = bytes(reply[: layout.aborted_at + 12])
        if layout.error_code(head):
            raise BrokerError(f"fetch: error {layout.error_code(head)}")
        self._offset = _end_offset(reply[layout.aborted_at + 12 :], self._offset)
        if self._offset >= self._end_offset:
            self._offset = 0

    def _ask(self) -> None:
        at = self._layout.offset_at
        self._fetch[at : at + 8] = self._offset.to_bytes(8, "big")
        self.connection.send(bytes(self._fetch))
