"""Shares of the disk among consumer groups of different sizes, and what their backlog costs a reader of the newest.

Strategy: a topic of 40 partitions, larger than the node's memory for records, is read by groups of raw connections.
Each member of a group joins it on one connection and fetches on another, as clients do, and its partitions are a part
of all as an assignor would give: 40 of them for one member, 1 for each of 40. A fetch asks for all partitions of a
member, a mebibyte of each. The bytes that each group got in a few seconds are its share. The machine's page cache may
hold the topic: what is shared is the node's reading.

All readers live in one process, and take little of the machine: elsewhere they would run on machines of their own.
"""

import argparse
import json
import multiprocessing
import pathlib
import select
import socket
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from multiprocessing.sharedctypes import SynchronizedArray
from multiprocessing.synchronize import Event
from typing import Any, Final

from bench.backlog import (
    GIGABYTE,
    RECORDS_PER_BATCH,
    REPLY_BYTES,
    SILENCE_S_MAX,
    TAIL_READERS,
    VALUE,
    fill,
    tail_latency,
)
from bench.kafka_bytes import (
    fetch_of_many,
    from_client,
    join_error,
    join_request,
    record_batch,
    set_group_error,
    set_group_request,
)
from bench.raw_client import BrokerError, RawConnection, create_topic
from bench.targets import Target, scratch_folder, start_hutong

PARTITIONS: Final = 40
MEMORY_BYTES: Final = 64 << 20  # more than the node keeps of the newest records
SETTLE_S: Final = 1.0
BACKLOG_GROUPS: Final = 10
PRIORITY: Final = "hutong.actor.priority"
SUSPENDED: Final = "hutong.actor.suspended"


def main(words: Sequence[str]) -> int:
    options = _arguments(words)
    with scratch_folder(options.dir) as folder:
        target = start_hutong(pathlib.Path(folder))
        try:
            bench = _Bench(target, options.gigabytes, options.seconds, options.turns)
            results = bench.run()
        finally:
            target.stop()
    if options.json:
        print(json.dumps(results, indent=1))
    return 0


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench fairness", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the topic (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a turn (default %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="turns of each experiment (default %(default)s)")
    parser.add_argument("--dir", metavar="DIR", help="where the node keeps its data (default: the temporary folder)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON at the end")
    return parser.parse_args(words)


class _Bench:
    """One node with a filled topic."""

    def __init__(self, target: Target, gigabytes: float, seconds: float, turns: int) -> None:
        self._target = target
        self._seconds = seconds
        self._turns = turns
        self._topic = f"fairness-{time.time_ns()}"
        create_topic(target.bootstrap, self._topic, partitions=PARTITIONS, records=0)
        size = int(gigabytes * GIGABYTE) // PARTITIONS
        self._ends = {number: fill(target.bootstrap, self._topic, size, number) for number in range(PARTITIONS)}
        # What came last would be in memory, where no share counts.
        target.create_topic(f"{self._topic}-behind")
        fill(target.bootstrap, f"{self._topic}-behind", MEMORY_BYTES)
        self._results: list[dict[str, Any]] = []

    def run(self) -> list[dict[str, Any]]:
        for turn in range(self._turns):
            self._shares("alone", turn, {"one01": 1})
            self._shares("1 next to 40 members", turn, {"one01": 1, "many4": 40})
            self._shares("1, 10 and 40 members", turn, {"one01": 1, "ten10": 10, "many4": 40})
            self._shares("priority 2", turn, {"prio2": 10, "prio1": 10}, {"prio2": {PRIORITY: "2"}})
            self._suspension(turn)
            self._narrow(turn)
            self._tail(turn)
        return self._results

    def _shares(
        self, name: str, turn: int, groups: Mapping[str, int], rules: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        for group, settings in (rules or {}).items():
            self._set(group, settings)
        with GroupReaders(self._target, self._topic, self._ends, groups) as readers:
            self._note(name, turn, readers.rates(self._seconds))

    def _suspension(self, turn: int) -> None:
        groups = {"susp1": 10, "goes1": 10}
        with GroupReaders(self._target, self._topic, self._ends, groups) as readers:
            self._set("susp1", {SUSPENDED: "true"})
            time.sleep(SETTLE_S)
            self._note("one of two suspended", turn, readers.rates(self._seconds))
            self._set("susp1", {SUSPENDED: "false"})
            time.sleep(SETTLE_S)
            self._note("and resumed", turn, readers.rates(self._seconds))

    def _narrow(self, turn: int) -> None:
        """One member with a single partition, which has at most one read in the queue: alone, and next to many."""
        for groups in ({"lone1": 1}, {"lone1": 1, "many4": 40}):
            with GroupReaders(self._target, self._topic, self._ends, groups, partitions_max={"lone1": 1}) as readers:
                name = f"1 member with 1 partition{', next to 40 members' if len(groups) > 1 else ', alone'}"
                self._note(name, turn, readers.rates(self._seconds))

    def _tail(self, turn: int) -> None:
        topics = [f"tail-{turn}-{time.time_ns()}-{number}" for number in range(TAIL_READERS)]
        for name in topics:
            self._target.create_topic(name)
        alone = tail_latency(self._target.bootstrap, topics, self._seconds).percentiles(0.50, 0.99)
        groups = {f"back{number}": 1 for number in range(BACKLOG_GROUPS)}
        with GroupReaders(self._target, self._topic, self._ends, groups):
            loaded = tail_latency(self._target.bootstrap, topics, self._seconds).percentiles(0.50, 0.99)
        figures = {
            "alone p50 ms": alone[0] * 1e3,
            "alone p99 ms": alone[1] * 1e3,
            "with p50 ms": loaded[0] * 1e3,
            "with p99 ms": loaded[1] * 1e3,
            "p99 ratio": loaded[1] / alone[1],
        }
        self._note(f"tail readers with {BACKLOG_GROUPS} backlog groups", turn, figures)

    def _set(self, group: str, settings: Mapping[str, str]) -> None:
        with RawConnection(self._target.bootstrap) as connection:
            for name, value in settings.items():
                error = set_group_error(connection.call(set_group_request(group, name, value)))
                if error:
                    raise BrokerError(f"{name} of {group}: error {error}")

    def _note(self, name: str, turn: int, figures: Mapping[str, float]) -> None:
        self._results.append({"name": name, "turn": turn, **figures})
        shown = ", ".join(f"{key} {value:.3g}" for key, value in figures.items())
        print(f"{name}: {shown}", file=sys.stderr, flush=True)


class GroupReaders:
    """Groups that read in a process of their own, while entered. `groups` are names and numbers of members.

    Each member reads its part of all partitions, or as many as `partitions_max` allows its group.
    """

    def __init__(
        self,
        target: Target,
        topic: str,
        ends: Mapping[int, int],
        groups: Mapping[str, int],
        partitions_max: Mapping[str, int] | None = None,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._groups = groups
        self._counters: SynchronizedArray[int] = context.Array("q", 2 * len(groups))
        self._stop = context.Event()
        self._process = context.Process(
            target=read_as_groups,
            args=(target.bootstrap, topic, dict(ends), dict(groups), partitions_max or {}, self._counters, self._stop),
            daemon=True,
        )

    def __enter__(self) -> "GroupReaders":
        self._process.start()
        give_up = time.monotonic() + SILENCE_S_MAX
        while not any(self._counters):
            if not self._process.is_alive() or time.monotonic() > give_up:
                raise BrokerError("the groups read nothing")
            time.sleep(0.01)
        time.sleep(SETTLE_S)
        return self

    def __exit__(self, *_: object) -> None:
        is_sound = self._process.is_alive()
        self._stop.set()
        self._process.join(SILENCE_S_MAX)
        if not is_sound:
            raise BrokerError("the groups ended before their time")

    def rates(self, seconds: float) -> dict[str, float]:
        """MB/s, the share and the mean time of a fetch in ms of each group, from now on."""
        before, began = list(self._counters), time.monotonic()
        time.sleep(seconds)
        counted = [now - then for now, then in zip(self._counters, before, strict=True)]
        took = time.monotonic() - began
        total = sum(counted[::2]) or 1
        figures = {}
        for number, (group, members) in enumerate(self._groups.items()):
            size, fetches = counted[2 * number], counted[2 * number + 1]
            figures[f"{group} MB/s"] = size / took / 1e6
            figures[f"{group} share"] = size / total
            figures[f"{group} fetch ms"] = took * members / fetches * 1e3 if fetches else float("inf")
        return figures


def read_as_groups(
    bootstrap: str,
    topic: str,
    ends: Mapping[int, int],
    groups: Mapping[str, int],
    partitions_max: Mapping[str, int],
    counters: "SynchronizedArray[int]",
    stop: Event,
) -> None:
    """The process of the readers: reads until `stop`. Each group has two counters, bytes and fetches."""
    members: dict[int, tuple[_GroupReader, int]] = {}
    joined = []
    with select.epoll() as poller:
        for number, (group, count) in enumerate(groups.items()):
            client_id = group.encode()
            for member in range(count):
                joined.append(_join(bootstrap, group, topic, client_id))
                part = [(partition, end) for partition, end in ends.items() if partition % count == member]
                share = dict(part[: partitions_max.get(group)])
                reader = _GroupReader(bootstrap, topic, share, client_id)
                members[reader.connection.socket.fileno()] = reader, number
                poller.register(reader.connection.socket.fileno(), select.EPOLLIN)
        while not stop.is_set():
            for descriptor, _ in poller.poll(0.1):
                reader, number = members[descriptor]
                fetches = reader.fetches
                size = reader.receive()
                with counters.get_lock():
                    counters[2 * number] += size
                    counters[2 * number + 1] += reader.fetches - fetches
    for connection in joined:
        connection.close()


_DROPPED: Final = bytearray(REPLY_BYTES)  # which nothing is ever written to
_PARTITION_HEAD_BYTES: Final = 42  # of Fetch v11, up to the records: index, error, offsets, aborted, replica, size


class _GroupReader:
    """A member's fetches, of all its partitions at once. It reads heads and lets the kernel drop the records.

    So that the readers of all groups together take little of the machine, as if they ran on others. Partitions that
    were answered with records are asked for last, as clients do.
    """

    def __init__(self, bootstrap: str, topic: str, ends: Mapping[int, int], client_id: bytes) -> None:
        self.connection = RawConnection(bootstrap)
        self.fetches = 0
        self._client_id = client_id
        self._topic = topic
        self._ends = ends
        self._offsets = dict.fromkeys(ends, 0)  # in the order in which they are asked for
        self._batch_bytes = len(record_batch([VALUE] * RECORDS_PER_BATCH))
        self._parser = self._parse()
        self._wanted = next(self._parser)
        self._head = b""
        self._ask()

    def receive(self) -> int:
        """Take what arrived; returns how many bytes that were."""
        link = self.connection.socket
        # Negative: as many bytes of records are to be dropped.
        if self._wanted < 0:
            got = link.recv_into(_DROPPED, min(-self._wanted, len(_DROPPED)), socket.MSG_TRUNC)
            self._wanted += got
        else:
            part = link.recv(self._wanted - len(self._head))
            self._head += part
            got = len(part)
        if not got:
            raise ConnectionError("closed by the broker")
        if self._wanted == 0 or len(self._head) == self._wanted:
            head, self._head = self._head, b""
            self._wanted = self._parser.send(head)
        return got

    def _parse(self) -> Generator[int, bytes, None]:
        """Yield the size of the next head, or less than 0 for bytes to drop; gets the head."""
        while True:
            # Size, correlation, throttle, error, session, topics, the topic's name, partitions.
            head = yield 22 + 2 + len(self._topic) + 4
            if head[12:14] != b"\0\0":
                raise BrokerError(f"fetch: error {int.from_bytes(head[12:14], 'big')}")
            for _ in range(int.from_bytes(head[-4:], "big")):
                head = yield _PARTITION_HEAD_BYTES
                size = int.from_bytes(head[-4:], "big", signed=True)
                if head[4:6] != b"\0\0":
                    raise BrokerError(f"fetch: error {int.from_bytes(head[4:6], 'big')}")
                if size > 0:
                    yield -size
                    self._note(int.from_bytes(head[:4], "big"), size)
            self.fetches += 1
            self._ask()

    def _note(self, partition: int, size: int) -> None:
        offset = self._offsets.pop(partition) + size // self._batch_bytes * RECORDS_PER_BATCH
        self._offsets[partition] = 0 if offset >= self._ends[partition] - RECORDS_PER_BATCH else offset

    def _ask(self) -> None:
        self.connection.send(from_client(fetch_of_many(self._topic, self._offsets), self._client_id))


def _join(bootstrap: str, group: str, topic: str, client_id: bytes) -> RawConnection:
    """A connection that speaks for a new member; the session of a member outlives a turn."""
    connection = RawConnection(bootstrap)
    error = join_error(connection.call(from_client(join_request(group, topic), client_id)))
    if error:
        raise BrokerError(f"joining {group}: error {error}")
    return connection
