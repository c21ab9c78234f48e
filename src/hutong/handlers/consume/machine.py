"""The decisions of one consumer of topics: order, slots, attempts, batches, and the offsets that may be committed.

Strategy: items of one key are a chain, of which the first alone may have a slot. So a key keeps its order while others
overtake it. With one slot the whole partition is one chain. An offset may be committed when everything before it is
done: an item leaves the front of its partition only then. Records without a key have no order to keep, where there are
several slots.

Knows no client library, loop or clock: times and chance arrive as values.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from hutong.bus.durable.consume.retry import Retry
from hutong.foundation.machine import Tick
from hutong.handlers.consume.messages import (
    AttemptFailed,
    Begin,
    HaltHandling,
    HandlerReturned,
    HandlingEvent,
    HandlingInstruction,
    HandlingRules,
    OutputsRefused,
    OutputsStored,
    PartitionQuiet,
    PartitionShare,
    PausePartition,
    Place,
    PositionTaken,
    PublishOutputs,
    RecordsTaken,
    ResumePartition,
    SharesGiven,
    SharesGone,
    SharesLeaving,
    TakenRecord,
    WorkItem,
    WorkState,
)

PUBLISH_AGAIN_MS: Final = 1_000  # after the log refused for a while
UNREADABLE: Final = "UndecodableMessage"
OUTPUT_REFUSED: Final = "ResultRefused"


class HandlingMachine:
    """Events in, instructions out; `take_positions` gives the offsets to commit."""

    def __init__(self, retry: Retry, chance: Callable[[], float], rules: HandlingRules) -> None:
        self._retry = retry
        self._chance = chance
        self._rules = rules
        self._shares: dict[Place, PartitionShare] = {}
        self._ready: deque[WorkItem] = deque()
        self._slots = rules.concurrency
        self._due: list[tuple[int, int, WorkItem]] = []  # by time: WAITING and PUBLISHING again
        self._due_count = 0
        self._gathering: dict[Place, PartitionShare] = {}  # with an unfinished batch, by the time it began
        self._out: list[HandlingInstruction] = []
        self._is_leaving = False
        self._is_halted = False

    def handle(self, event: HandlingEvent) -> Sequence[HandlingInstruction]:
        """Take one event, and return what is to be done, in order."""
        if isinstance(event, HandlerReturned):  # first, since it comes for each message
            self._returned(event.item)
        elif isinstance(event, RecordsTaken):
            self._taken(event)
        elif isinstance(event, OutputsStored):
            self._stored(event.item)
        elif isinstance(event, AttemptFailed):
            self._failed(event)
        elif isinstance(event, OutputsRefused):
            self._refused(event)
        elif isinstance(event, SharesGiven):
            self._give(event.places)
        elif isinstance(event, SharesLeaving):
            self._leave(event.places)
        elif isinstance(event, SharesGone):
            self._drop(self._shares if event.places is None else event.places)
        else:
            self._tick(event)
        self._fill_slots()
        out, self._out = self._out, []
        return out

    def next_tick_ms(self) -> int | None:
        """Return the time at which a `Tick` is due, never too late; None while nothing can time out."""
        gathered = next(iter(self._gathering.values())).gathering_until_ms if self._gathering else None
        due = self._due[0][0] if self._due else None
        return due if gathered is None else gathered if due is None else min(gathered, due)

    def running_of(self, place: Place) -> int:
        """The number of items of a partition that are in hand."""
        share = self._shares.get(place)
        return 0 if share is None else share.running

    @property
    def places(self) -> list[Place]:
        return list(self._shares)

    def take_positions(self, places: Iterable[Place] | None = None) -> dict[Place, PositionTaken]:
        """The offsets that have grown since they were last taken, of these partitions or of all."""
        taken = {}
        for place in list(self._shares) if places is None else places:
            share = self._shares.get(place)
            if share is None or share.position is None or share.position == share.committed:
                continue
            share.committed = share.position
            items, share.finished = share.finished, []
            taken[place] = PositionTaken(share.position, items)
        return taken

    def committed(self, taken: Mapping[Place, PositionTaken]) -> Sequence[HandlingInstruction]:
        """The positions are stored: the items of their transaction no longer fill their partitions."""
        for place, position in taken.items():
            share = self._shares.get(place)
            if share is not None:
                for item in position.items:
                    self._release(share, item)
        out, self._out = self._out, []
        return out

    def give_back(self, taken: Mapping[Place, PositionTaken]) -> None:
        """The positions could not be stored: they are taken again, with their items before those since."""
        for place, position in taken.items():
            share = self._shares.get(place)
            if share is not None:
                share.committed = None
                share.finished = [*position.items, *share.finished]

    # -- partitions

    def _give(self, places: Iterable[Place]) -> None:
        for place in places:
            self._shares[place] = PartitionShare(place, is_leaving=self._is_leaving)

    def _leave(self, places: Sequence[Place] | None) -> None:
        self._is_leaving = self._is_leaving or places is None
        for place in list(self._shares) if places is None else places:
            share = self._shares.get(place)
            if share is None:
                continue
            share.is_leaving = True
            if not share.running:
                self._out.append(PartitionQuiet(place))

    def _drop(self, places: Iterable[Place]) -> None:
        for place in list(places):
            share = self._shares.pop(place, None)
            self._gathering.pop(place, None)
            # Handlers cannot be stopped: what they still do counts for nothing, the new owner does it again. Their
            # slots are free when they end.
            for item in share.items if share else ():
                item.state = WorkState.DROPPED
        self._ready = deque([item for item in self._ready if item.state is WorkState.READY])
        self._due = [due for due in self._due if due[2].state is not WorkState.DROPPED]
        heapify(self._due)

    # -- arrival

    def _taken(self, event: RecordsTaken) -> None:
        share = self._shares.get(event.place)
        # Fetched before a rebalance that took the partition away, and delivered after it.
        if share is None:
            return
        batch_max = self._rules.batch_max
        for record in event.records:
            if record.offset <= share.last_offset:
                continue  # fetched again, by a client that lost its place
            share.last_offset = record.offset
            if share.position is None:
                share.position = share.committed = record.offset
            share.records_held += 1
            share.bytes_held += record.size_bytes
            if record.problem is not None:
                # Before it in the log is what is gathered: the front of the partition must stay in order.
                self._close_batch(share)
                self._bury_unreadable(share, record)
            elif batch_max is None:
                self._queue(share, [record])
            else:
                self._gather(share, record, batch_max, event.now_ms)
        rules = self._rules
        # Counted and weighed: a thousand small records or a few large ones fill the memory.
        is_full = share.records_held >= rules.records_held_max or share.bytes_held >= rules.bytes_held_max
        if is_full and not share.is_paused:
            share.is_paused = True
            self._out.append(PausePartition(share.place))

    def _gather(self, share: PartitionShare, record: TakenRecord, batch_max: int, now_ms: int) -> None:
        if not share.gathering:
            share.gathering_until_ms = now_ms + self._rules.batch_wait_ms
            self._gathering[share.place] = share
        share.gathering.append(record)
        if len(share.gathering) >= batch_max:
            self._close_batch(share)

    def _close_batch(self, share: PartitionShare) -> None:
        if share.gathering:
            records, share.gathering = share.gathering, []
            del self._gathering[share.place]
            self._queue(share, records)

    def _bury_unreadable(self, share: PartitionShare, record: TakenRecord) -> None:
        item = WorkItem(share, [record])
        share.items.append(item)
        item.attempts = 1
        item.error_type, item.error_text = UNREADABLE, str(record.problem)
        share.running += 1  # `_give_up` follows an attempt, and so does this
        self._give_up(item)

    def _queue(self, share: PartitionShare, records: list[TakenRecord]) -> None:
        item = WorkItem(share, records)
        share.items.append(item)
        if self._rules.concurrency > 1 and self._rules.batch_max is None:
            if item.key is None:
                self._make_ready(item)
                return
            chain: bytes | None = item.key
        else:
            chain = None
        tail = share.tails.get(chain)
        share.tails[chain] = item
        if tail is None:
            self._make_ready(item)
        else:
            tail.following = item

    def _make_ready(self, item: WorkItem) -> None:
        item.state = WorkState.READY
        self._ready.append(item)

    def _fill_slots(self) -> None:
        """Give free slots to ready items, first come, first served."""
        if not self._slots or not self._ready or self._is_halted or self._is_leaving:
            return
        held = []
        while self._ready and self._slots:
            item = self._ready.popleft()
            share = item.share
            if share.is_leaving:
                held.append(item)
                continue
            self._slots -= 1
            share.running += 1
            item.attempts += 1
            item.state = WorkState.HANDLING
            self._out.append(Begin(item))
        # They are dropped with their partition.
        self._ready.extendleft(reversed(held))

    # -- ends of attempts

    def _returned(self, item: WorkItem) -> None:
        self._slots += 1
        if item.state is WorkState.DROPPED:
            return
        self._advance_chain(item)
        if item.outputs and not self._rules.keeps_finished:
            item.state = WorkState.PUBLISHING
            self._out.append(PublishOutputs(item))
        else:
            self._finish(item)

    def _advance_chain(self, item: WorkItem) -> None:
        """The next item of the key may begin."""
        following = item.following
        if following is not None:
            item.following = None
            self._make_ready(following)
            return
        tails = item.share.tails
        if self._rules.concurrency > 1 and self._rules.batch_max is None:
            if item.key is not None and tails.get(item.key) is item:
                del tails[item.key]
        elif tails.get(None) is item:
            del tails[None]

    def _failed(self, event: AttemptFailed) -> None:
        item = event.item
        self._slots += 1
        if item.state is WorkState.DROPPED:
            return
        item.error_type, item.error_text = event.error_type, event.error_text
        item.first_failure_ms = item.first_failure_ms or event.wall_ms
        item.last_failure_ms = event.wall_ms
        if event.is_final or self._retry.gives_up_after(item.attempts):
            self._give_up(item)
        else:
            item.state = WorkState.WAITING
            self._at_rest(item)
            self._park_until(item, event.now_ms + self._retry.delay_ms(item.attempts, self._chance()))

    def _park_until(self, item: WorkItem, due_ms: int) -> None:
        self._due_count += 1
        heappush(self._due, (due_ms, self._due_count, item))

    def _give_up(self, item: WorkItem) -> None:
        if not self._rules.has_dead_letters:
            self._at_rest(item)
            item.state = WorkState.WAITING
            self._halt(item, f"it failed {item.attempts} times ({item.error_type}) and there is no dead-letter topic")
            return
        item.is_buried = True
        item.state = WorkState.PUBLISHING
        self._out.append(PublishOutputs(item))

    def _halt(self, item: WorkItem, reason: str) -> None:
        self._is_halted = True
        topic, partition = item.share.place
        self._out.append(HaltHandling(f"{topic}, partition {partition}, offset {item.records[0].offset}: {reason}"))

    # -- what is published

    def _stored(self, item: WorkItem) -> None:
        if item.state is not WorkState.PUBLISHING:
            return
        if item.is_buried:
            self._advance_chain(item)
        self._finish(item)

    def _refused(self, event: OutputsRefused) -> None:
        item = event.item
        if item.state is not WorkState.PUBLISHING:
            return
        if not event.is_hopeless:
            self._at_rest(item)
            self._park_until(item, event.now_ms + PUBLISH_AGAIN_MS)
        elif item.is_buried:
            self._at_rest(item)
            # Skipping it would lose it, and sending it again cannot help: a person must look.
            self._halt(item, f"its dead letter was refused: {event.reason}")
        else:
            item.error_type, item.error_text = OUTPUT_REFUSED, event.reason
            item.first_failure_ms = item.last_failure_ms = event.wall_ms
            self._give_up(item)

    def _finish(self, item: WorkItem) -> None:
        """The offset may pass the item."""
        item.state = WorkState.DONE
        share = item.share
        items = share.items
        while items and items[0].state is WorkState.DONE:
            done = items.popleft()
            share.position = done.records[-1].offset + 1
            if self._rules.keeps_finished:
                share.finished.append(done)
            else:
                self._release(share, done)
        self._at_rest(item)

    def _release(self, share: PartitionShare, item: WorkItem) -> None:
        share.records_held -= len(item.records)
        for record in item.records:
            share.bytes_held -= record.size_bytes
        if (
            share.is_paused
            # Resumed at half, so that a full partition does not pause and resume with every record.
            and share.records_held * 2 <= self._rules.records_held_max
            and share.bytes_held * 2 <= self._rules.bytes_held_max
        ):
            share.is_paused = False
            self._out.append(ResumePartition(share.place))

    def _at_rest(self, item: WorkItem) -> None:
        share = item.share
        share.running -= 1
        if share.is_leaving and not share.running:
            self._out.append(PartitionQuiet(share.place))

    def _tick(self, event: Tick) -> None:
        while self._due and self._due[0][0] <= event.now_ms:
            item = heappop(self._due)[2]
            # Back-off is over. It is still the first of its key, and needs a slot like any other.
            if item.state is WorkState.WAITING:
                self._make_ready(item)
            elif item.state is WorkState.PUBLISHING and not item.share.is_leaving and not self._is_halted:
                item.share.running += 1
                self._out.append(PublishOutputs(item))
        while self._gathering:
            share = next(iter(self._gathering.values()))
            if share.gathering_until_ms > event.now_ms:
                break
            self._close_batch(share)
