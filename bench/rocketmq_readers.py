"""Readers over RocketMQ's protocol for `python -m bench rocketmq`: of the newest messages, and of a backlog.

Strategy: raw connections, since a Java or Go consumer hands messages on in its own rhythm and costs more than a broker
does. A tail reader pulls one queue and waits at the broker; messages go to it at a fixed rate, each with the time at
which it was sent (an open loop, so a stall shows in every message that it delays). Groups of a backlog are processes,
each of which pulls everything.
"""

import multiprocessing
import pathlib
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bench.figures import WeightedSamples
from bench.raw_client import BrokerError, connect
from bench.rocketmq_raw import (
    QUEUES,
    broker_of,
    count_messages,
    heartbeat,
    pull_queue,
    send_frames,
    send_messages,
    stored_bodies,
)
from hutong.wire.rocketmq.command import BINARY

WINDOW: Final = 64
MESSAGES_PER_S: Final = 200
WAIT_MS: Final = 5_000  # of a pull at the broker
DEADLINE_S: Final = 120.0
_TIME: Final = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class TailReader:
    """The latency of a message, from its send to its arrival at a reader that waits."""

    messages: int
    name: str = "raw, tail reader"

    def run(self, _script: pathlib.Path, address: str, topic: str) -> Mapping[tuple[str, str], float]:
        broker = broker_of(address)
        _create(broker, topic)
        samples = WeightedSamples()
        reader = threading.Thread(target=self._read, args=(broker, topic, samples), daemon=True)
        reader.start()
        self._send(broker, topic)
        reader.join(DEADLINE_S)
        if samples.count < self.messages:
            raise BrokerError(f"{samples.count} of {self.messages} messages arrived at {address}")
        p50, p99 = samples.percentiles(0.50, 0.99)
        return {(self.name, "p50, ms"): p50 * 1e3, (self.name, "p99, ms"): p99 * 1e3}

    def _read(self, broker: str, topic: str, samples: WeightedSamples) -> None:
        with connect(broker) as connection:
            heartbeat(connection, "tail", topic)
            for body in pull_queue(connection, "tail", topic, 0, WAIT_MS):
                now_ns = time.monotonic_ns()
                for sent in stored_bodies(body):
                    (sent_ns,) = _TIME.unpack_from(sent)
                    # The one that has created the topic has no time.
                    if sent_ns:
                        samples.add((now_ns - sent_ns) / 1e9, 1)
                if samples.count >= self.messages:
                    return

    def _send(self, broker: str, topic: str) -> None:
        begun_s = time.monotonic()
        with connect(broker) as connection:
            for number in range(self.messages):
                time.sleep(max(0.0, begun_s + number / MESSAGES_PER_S - time.monotonic()))
                body = _TIME.pack(time.monotonic_ns())
                send_messages(connection, send_frames(topic, body, BINARY, queues=1, count=1), 1, 1)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The rate at which several groups, each in a process of its own, pull all of a topic."""

    messages: int
    groups: int

    @property
    def name(self) -> str:
        return f"raw, backlog of {self.messages:,}, {self.groups} group{'s' if self.groups > 1 else ''}"

    def run(self, _script: pathlib.Path, address: str, topic: str) -> Mapping[tuple[str, str], float]:
        broker = broker_of(address)
        _create(broker, topic)
        with connect(broker) as connection:
            send_messages(connection, send_frames(topic, bytes(128), BINARY), self.messages, WINDOW)
        with multiprocessing.Pool(self.groups) as pool:
            begun_s = time.monotonic()
            words = [(broker, f"group-{number}", topic, self.messages) for number in range(self.groups)]
            pulled = sum(pool.starmap(_pull_all, words))
            seconds = time.monotonic() - begun_s
        return {(self.name, "messages/s, all groups"): pulled / seconds}


def _create(broker: str, topic: str) -> None:
    """Create the topic with its first message, which has room for a time and has none."""
    with connect(broker) as connection:
        send_messages(connection, send_frames(topic, bytes(_TIME.size), BINARY, count=1), 1, 1)


def _pull_all(broker: str, group: str, topic: str, count: int) -> int:
    pulled = 0
    give_up_s = time.monotonic() + DEADLINE_S
    with connect(broker) as connection:
        heartbeat(connection, group, topic)
        offsets = [0] * QUEUES
        # RocketMQ shows messages some milliseconds after they were acknowledged: an end may move on.
        while pulled < count and time.monotonic() < give_up_s:
            for queue in range(QUEUES):
                for body in pull_queue(connection, group, topic, queue, from_offset=offsets[queue]):
                    found = count_messages(body)
                    offsets[queue] += found
                    pulled += found
    if pulled < count:
        raise BrokerError(f"{pulled} of {count} messages were pulled by {group}")
    return pulled
