"""The topic `_schemas`: read into a machine, and appended to by the node that leads it.

Strategy: the log is the only way into the machine, also for what this node appends, so that records of others (a
mirror, another registry) count as its own do. A topic that was deleted and made anew begins a new machine. In a
cluster a node reads its own replica; where it has none, or a late one, it reads at the leader.

    settled:  everything in the log is committed and applied, in this leader's epoch
    append:   refused unless the log is still as `settled` has left it: so a decision is about what is there

Decides nothing. All calls come on the loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.kafka.k00_produce import ACKS_ALL, qos_for
from hutong.broker.topics.group_standing import NO_LEADER
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import settle_future
from hutong.journal.append.qos import Qos
from hutong.journal.log import DiskRead, EpochEnd
from hutong.registry.fetching import fetched
from hutong.registry.machine import RegistryMachine
from hutong.registry.records import RawRecord
from hutong.registry.replay import SchemaReplay
from hutong.registry.values import NotRecorded, RegistryCode, UnknownOutcome
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.batch.records import Record, build_batch, parse_batch_header

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.topics.partition import Partition, Topic

TOPIC: Final = "_schemas"
TOPIC_CONFIG: Final = {"cleanup.policy": "compact"}
READ_BYTES: Final = 256 * 1024
SAFE_MS_MAX: Final = 5_000
LEADER_MS_MAX: Final = 5_000  # for an election, and the first answer of who is elected
_log: Final = logging.getLogger("hutong.registry")


class SchemaStore:
    """`get_topic` finds the topic, and makes it where it is missing."""

    def __init__(self, broker: "Broker", get_topic: "Callable[[], Awaitable[Topic]]") -> None:
        self._broker = broker
        self._get_topic = get_topic
        self._reading = asyncio.Lock()
        self._partition: Partition | None = None
        self._replay = SchemaReplay()
        self._epoch = 0  # of the leader whose log was last compared with the replay
        self._settled: tuple[SchemaReplay, int, int] | None = None  # with its offset, and the leader's epoch
        # Reads at the leader by their numbers: one that began after a question answers that as well.
        self._asked = self._answered = 0
        self._failure: Refused | None = None

    @property
    def machine(self) -> RegistryMachine:
        return self._replay.machine

    @property
    def leader(self) -> int:
        """The node that writes, NO_LEADER while there is none."""
        return NO_LEADER if self._partition is None else self._partition.standing.leader

    @property
    def is_led_here(self) -> bool:
        return self._partition is not None and self._partition.standing.is_led_here

    @property
    def is_current(self) -> bool:
        """False where this node's log has more than was read, or is another one."""
        partition = self._partition
        if partition is None or self._broker.topics.partition(TOPIC, 0) is not partition:
            return False
        return self._replay.next_offset >= partition.log.last_stable_offset

    async def catch_up(self) -> None:
        """Read what is new here. Raises Refused."""
        partition = self._partition
        if partition is None or self._broker.topics.partition(TOPIC, 0) is not partition:
            partition = await self._begin()
        standing = partition.standing
        # The usual question: nothing was recorded since the last one.
        if self._replay.next_offset < partition.log.last_stable_offset:
            async with self._reading:
                await self._read_here(partition)
        elif standing.is_led_here and partition.log.end_offset < self._replay.next_offset:
            self._begin_anew()  # an unclean leader lacks records that were read
            await self.catch_up()
        if standing.is_led_here:
            self._replay.is_whole = True
        # A replica that has just started does not know yet what is committed.
        elif not self._replay.is_whole:
            await self.refreshed()
        elif not standing.is_followed_here:
            try:
                await self.refreshed(timeout_ms=0)
            except Refused:
                return  # what was read until now is all that this node can have

    async def refreshed(self, timeout_ms: int = LEADER_MS_MAX) -> bool:
        """Read at the leader what this node may not have yet; True if that was something. Raises Refused."""
        if self.is_led_here:
            return False
        self._asked += 1
        number, before = self._asked, (self._replay, self._replay.next_offset)
        async with self._reading:
            if self._answered < number:
                self._answered = self._asked
                try:
                    await self._read_at_leader(timeout_ms)
                    self._failure = None
                except HutongError as error:
                    self._failure = Refused(RegistryCode.FORWARDING, f"The leader of {TOPIC} does not answer: {error}")
        if self._failure is not None:
            raise self._failure
        return before != (self._replay, self._replay.next_offset)

    async def settled(self) -> RegistryMachine:
        """The state with all that is in the log. Raises NotRecorded where another node writes, and Refused."""
        await self.catch_up()
        partition = self._partition
        assert partition is not None, "it was read"
        if not partition.standing.is_led_here:
            raise NotRecorded("Another node writes schemas.")
        log, epoch = partition.log, partition.standing.leader_epoch
        # Also of an earlier leader: what is in this log will be committed, and may have ids.
        if self._replay.next_offset < log.end_offset:
            try:
                await self._when_safe(partition)
            except HutongError as error:
                raise Refused(RegistryCode.TIMED_OUT, f"What {TOPIC} has is not durable yet: {error}") from error
            await self.catch_up()
        if self._replay.next_offset != log.end_offset:
            raise Refused(RegistryCode.TIMED_OUT, f"A transaction, or another client, writes to {TOPIC}; try again.")
        self._settled = self._replay, self._replay.next_offset, epoch
        return self.machine

    async def append(self, records: Sequence[RawRecord]) -> None:
        """Record changes, and return once they are durable and applied. Raises NotRecorded, UnknownOutcome, Refused."""
        partition = self._partition
        assert partition is not None, "it was settled"
        now = self._replay, partition.log.end_offset, partition.standing.leader_epoch
        if self._settled != now or not partition.standing.is_led_here:
            raise NotRecorded(f"{TOPIC} has changed.")
        now_ms = self._broker.clock.wall_ms()
        batch = build_batch([Record(timestamp_ms=now_ms, key=key, value=value) for key, value in records])
        try:
            partition.check_served()
            qos_for(partition, ACKS_ALL)
            appended = partition.log.append([(memoryview(batch), parse_batch_header(batch))], Qos.ALL)
        except HutongError as error:
            raise _failed(error) from error
        # Returned by the log, not raised: see `LogAppends.append`.
        if isinstance(appended, HutongError):
            raise _failed(appended)
        try:
            await self._when_safe(partition)
        except HutongError as error:
            raise UnknownOutcome(f"The change may be recorded or not; try again: {error}") from error
        await self.catch_up()

    async def _begin(self) -> "Partition":
        async with self._reading:
            topic = await self._get_topic()
            partition = topic.partitions[0]
            # Another request has begun it meanwhile.
            if partition is not self._partition:
                if len(topic.partitions) > 1:
                    _log.error("%s has %d partitions; the first one alone is read.", TOPIC, len(topic.partitions))
                self._partition = partition
                self._begin_anew()
            return partition

    def _begin_anew(self) -> None:
        assert self._partition is not None, "there is a topic"
        self._replay, self._epoch = SchemaReplay(), self._partition.standing.leader_epoch

    async def _read_here(self, partition: "Partition") -> None:
        log = partition.log
        try:
            partition.check_online()
            await self._compare_epochs(partition)
            replay = self._replay
            while replay.next_offset < (end := log.last_stable_offset):
                before = replay.next_offset = max(replay.next_offset, log.start_offset)
                found = log.read(before, READ_BYTES, up_to=end)
                buffers = await _from_disk(partition, found) if isinstance(found, DiskRead) else found.buffers
                replay.apply(buffers, log.aborted_between(before, end))
                # Compaction leaves gaps behind the last batch.
                if replay.next_offset == before:
                    replay.next_offset = end
        except HutongError as error:
            raise Refused(RegistryCode.STORE, f"The topic {TOPIC} cannot be read: {error}") from error

    async def _compare_epochs(self, partition: "Partition") -> None:
        """Begin anew where a later leader's log is another one than what was replayed (KIP-320)."""
        epoch, replay = partition.standing.leader_epoch, self._replay
        if epoch == self._epoch or replay.last_epoch < 0:
            return
        done: asyncio.Future[EpochEnd] = asyncio.get_running_loop().create_future()
        partition.log.end_of_epoch(replay.last_epoch, partial(settle_future, done))
        if await done < (replay.last_epoch, replay.next_offset):
            self._begin_anew()
        self._epoch = epoch

    async def _read_at_leader(self, timeout_ms: int) -> None:
        partition = self._partition
        assert partition is not None, "it was looked for"
        while True:
            replay = self._replay
            data = await fetched(self._broker.cluster, partition, replay, timeout_ms)
            if data is None:
                if not replay.next_offset:
                    raise Refused(RegistryCode.STORE, f"The topic {TOPIC} has lost its first records.")
                self._begin_anew()
                continue
            before = replay.next_offset
            if isinstance(data.records, Buffer):
                aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
                replay.apply([data.records], aborted)
            if replay.next_offset >= data.last_stable_offset:
                replay.is_whole = True
                return
            if replay.next_offset == before:
                replay.next_offset = data.last_stable_offset

    async def _when_safe(self, partition: "Partition") -> None:
        """Return once all that the log has is committed. Raises HutongError where that takes long, or fails."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partition.log.when_safe(Qos.ALL, partial(settle_future, done), SAFE_MS_MAX)
        await done


async def _from_disk(partition: "Partition", read: DiskRead[list[memoryview]]) -> list[memoryview]:
    done: asyncio.Future[list[memoryview]] = asyncio.get_running_loop().create_future()
    partition.log.read_from_disk(read, partial(settle_future, done))
    return await done


def _failed(error: HutongError) -> Refused:
    return Refused(RegistryCode.STORE, f"Register operation failed: {error}")
