"""One member of a group, in a process that may be killed: it reads, processes, commits, and says so in a file.

    python -m tests.support.churn_member JOURNAL LIBRARY BOOTSTRAP GROUP TOPIC [NAME=VALUE ...]

Strategy: each line of the journal is one thing that has happened, written at once by a single write, so that what a
killed process did is on record up to the last line. Processing is the line itself; a commit is asked for only when the
lines of all before it are written, and recorded only when it was acknowledged. SIGTERM makes the member leave politely.

Lines: `own TIME GENERATION P,P,...` (all it owns then), `begin TIME P OFFSET` (the first record since it was assigned,
and when that was), `done P FIRST LAST`, `committed TIME P OFFSET`, `gap P EXPECTED GOT`, `ended` (left politely),
`fenced` (a newer process has its static identity). Times are of the machine's clock, which its processes share.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

POLL_S: Final = 0.1
RECORDS_MAX: Final = 200
COMMIT_DEADLINE_S: Final = 5.0


class Journal:
    """The journal of a member: its events, its partitions and the records processed since it was assigned."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._owned: set[int] = set()
        self._next: dict[int, int] = {}
        self._assigned_at: dict[int, int] = {}

    def write(self, *lines: str) -> None:
        if lines:
            os.write(self._file, "".join(line + "\n" for line in lines).encode())

    def assigned(self, partitions: Iterable[int], generation: int) -> None:
        now = time.monotonic_ns()
        for partition in partitions:
            self._owned.add(partition)
            self._assigned_at[partition] = now
        if generation >= 0:
            self.write(f"own {now} {generation} {','.join(map(str, sorted(self._owned)))}")

    def revoked(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._owned.discard(partition)
            self._next.pop(partition, None)

    def process(self, partition: int, offsets: Iterable[int]) -> None:
        """Records of one partition, in the order in which they came."""
        if partition not in self._owned:
            return  # taken away in the very poll that brought them
        lines, first, following = [], None, self._next.get(partition)
        for offset in offsets:
            if following is None:
                lines.append(f"begin {self._assigned_at[partition]} {partition} {offset}")
            if following is not None and offset != following:
                lines.append(f"gap {partition} {following} {offset}")
            first = offset if first is None else first
            following = offset + 1
        if first is None or following is None:
            return
        self._next[partition] = following
        self.write(*lines, f"done {partition} {first} {following - 1}")

    def to_commit(self) -> dict[int, int]:
        return dict(self._next)

    def committed(self, offsets: Mapping[int, int]) -> None:
        now = time.monotonic_ns()
        self.write(*(f"committed {now} {partition} {offset}" for partition, offset in offsets.items()))


class Leave:
    """True if the member has to leave."""

    def __init__(self) -> None:
        self.is_asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _number: int, _frame: object) -> None:
        self.is_asked = True


def with_confluent(journal: Journal, bootstrap: str, group: str, topic: str, options: Mapping[str, str]) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "log_level": 0,
        **options,
    }
    consumer = Consumer(settings)

    def generation() -> int:
        metadata = consumer.consumer_group_metadata()  # b"CGMDv2:" and then the generation in the machine's order
        return int.from_bytes(metadata[7:11], sys.byteorder, signed=True)

    def commit() -> None:
        asked = journal.to_commit()
        places = [TopicPartition(topic, partition, offset) for partition, offset in asked.items()]
        with contextlib.suppress(KafkaException):  # then the next owner does it again
            answers = consumer.commit(offsets=places, asynchronous=False) if places else []
            journal.committed({place.partition: place.offset for place in answers or () if not place.error})

    def assigned(_consumer: Consumer, places: list[TopicPartition]) -> None:
        journal.assigned([place.partition for place in places], generation())

    def revoked(_consumer: Consumer, places: list[TopicPartition]) -> None:
        commit()
        journal.revoked([place.partition for place in places])

    def lost(_consumer: Consumer, places: list[TopicPartition]) -> None:
        journal.revoked([place.partition for place in places])

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not LEAVE.is_asked:
        found: dict[int, list[int]] = {}
        for message in consumer.consume(RECORDS_MAX, POLL_S):
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None and error.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID):
                journal.write("fenced")
                os._exit(0)  # closing would wait for a group that does not know it any more
            if error is None and partition is not None and offset is not None:
                found.setdefault(partition, []).append(offset)
        for partition, offsets in found.items():
            journal.process(partition, offsets)
        if found:
            commit()
    consumer.close()


def with_kafka_python(journal: Journal, bootstrap: str, group: str, topic: str, options: Mapping[str, str]) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=_kafka_python_assignors(options),
        session_timeout_ms=int(options["session.timeout.ms"]),
        heartbeat_interval_ms=int(options["heartbeat.interval.ms"]),
        group_instance_id=options.get("group.instance.id"),
    )

    def commit() -> None:
        asked = journal.to_commit()
        places = {TopicPartition(topic, partition): OffsetAndMetadata(at, "", -1) for partition, at in asked.items()}
        with contextlib.suppress(KafkaError):
            if places:
                consumer.commit(places, timeout_ms=int(COMMIT_DEADLINE_S * 1000))
                journal.committed(asked)

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            journal.assigned([place.partition for place in assigned], consumer._coordinator._generation.generation_id)

        def on_partitions_revoked(self, revoked: Any) -> None:  # on a thread that may not wait for a commit
            journal.revoked([place.partition for place in revoked])

        def on_partitions_lost(self, lost: Any) -> None:
            journal.revoked([place.partition for place in lost])

    consumer.subscribe([topic], listener=Listener())
    while not LEAVE.is_asked:
        found = consumer.poll(int(POLL_S * 1000), max_records=RECORDS_MAX)
        for place, messages in found.items():
            journal.process(place.partition, [message.offset for message in messages])
        if found:
            commit()
    consumer.close()


def _kafka_python_assignors(options: Mapping[str, str]) -> list[Any]:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    by_name = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
    return [by_name[options["partition.assignment.strategy"]]]


def with_aiokafka(journal: Journal, bootstrap: str, group: str, topic: str, options: Mapping[str, str]) -> None:
    asyncio.run(_with_aiokafka(journal, bootstrap, group, topic, options))


async def _with_aiokafka(journal: Journal, bootstrap: str, group: str, topic: str, options: Mapping[str, str]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    assert options["partition.assignment.strategy"] == "range"
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=int(options["session.timeout.ms"]),
        heartbeat_interval_ms=int(options["heartbeat.interval.ms"]),
        group_instance_id=options.get("group.instance.id"),
    )

    async def commit() -> None:
        asked = journal.to_commit()
        with contextlib.suppress(KafkaError, asyncio.TimeoutError):
            if asked:
                places = {TopicPartition(topic, partition): offset for partition, offset in asked.items()}
                await asyncio.wait_for(consumer.commit(places), COMMIT_DEADLINE_S)
                journal.committed(asked)

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Any) -> None:
            journal.assigned([place.partition for place in assigned], consumer._coordinator.generation)

        async def on_partitions_revoked(self, revoked: Any) -> None:
            await commit()
            journal.revoked([place.partition for place in revoked])

    await consumer.start()
    consumer.subscribe([topic], listener=Listener())
    while not LEAVE.is_asked:
        found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_MAX)
        for place, messages in found.items():
            journal.process(place.partition, [message.offset for message in messages])
        if found:
            with contextlib.suppress(ValueError):  # a partition was taken away meanwhile
                await commit()
    await consumer.stop()


LEAVE: Final = Leave()
LIBRARIES: Final = {"confluent": with_confluent, "kafka-python": with_kafka_python, "aiokafka": with_aiokafka}


def main() -> None:
    path, library, bootstrap, group, topic, *options = sys.argv[1:]
    journal = Journal(path)
    LIBRARIES[library](journal, bootstrap, group, topic, dict(option.split("=", 1) for option in options))
    journal.write("ended")
    os._exit(0)  # at once: a signal that comes while Python clears up would end it otherwise


if __name__ == "__main__":
    main()
