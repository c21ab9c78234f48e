"""The promises of share groups: what is settled stays settled, one holder at a time, counts rise, nothing is stuck.

Strategy: linear in the history, apart from the deliveries of one record, of which there are few. The node acts between
a request's beginning and its answer, so one thing is before another only if its answer came before the other's request.
A successful acknowledgement proves that the member held its records until that request began: it keeps none beyond its
connection, and the node checks the holder. That proves nothing behind the end of a lock, or of a record that somebody
else has finished: the node accepts repetitions.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from hutong.testing.simulation.history import (
    AcquisitionUnknown,
    FinalRead,
    Happening,
    RecordsAcquired,
    RecordsSettled,
    ShareGroupRead,
    SimulationHistory,
)
from hutong.testing.simulation.history_text import Place

CLOCK_MARGIN: Final = 0.9
"""Of a lock's duration in the world's time: clocks of nodes drift by less than a hundredth."""
_FINAL: Final = ("accepts", "rejects")


def check_share_groups(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    return list(_ShareCheck(history.happenings).errors())


@dataclass(slots=True)
class _Deliveries:
    """All deliveries of one record in one group, and what its members did with it."""

    acquired: list[RecordsAcquired] = field(default_factory=list)
    settled: list[RecordsSettled] = field(default_factory=list)


class _ShareCheck:
    def __init__(self, happenings: Iterable[Happening]) -> None:
        self.records: dict[tuple[str, Place, int], _Deliveries] = defaultdict(_Deliveries)
        self.values: dict[tuple[Place, int], bytes] = {}
        self.differing: list[str] = []
        self.unknown: dict[str, int] = defaultdict(int)
        self.groups: list[ShareGroupRead] = []
        self.finals: dict[Place, FinalRead] = {}
        for each in happenings:
            match each:
                case RecordsAcquired():
                    for offset, value in each.records:
                        self.records[(each.group, each.place, offset)].acquired.append(each)
                        self._saw(each.place, offset, value)
                case RecordsSettled():
                    for offset in each.offsets:
                        self.records[(each.group, each.place, offset)].settled.append(each)
                case AcquisitionUnknown():
                    self.unknown[each.group] += 1
                case ShareGroupRead():
                    self.groups.append(each)
                case FinalRead(is_committed=False):
                    self.finals[each.place] = each
                    for offset, value in each.records:
                        self._saw(each.place, offset, value)

    def _saw(self, place: Place, offset: int, value: bytes) -> None:
        if self.values.setdefault((place, offset), value) != value:
            self.differing.append(f"{_at(place, offset)} held {self.values[(place, offset)]!r} and {value!r}")

    def errors(self) -> Iterator[str]:
        yield from self.differing
        limits = {each.group: each.delivery_limit for each in self.groups}
        for (group, place, offset), record in self.records.items():
            where = f"{_at(place, offset)} in {group}"
            yield from _settled_stays_settled(where, record)
            yield from _counts_rise(where, record, limits.get(group, 0))
            yield from _one_holder(where, record, limits.get(group, 0))
        for read in self.groups:
            yield from self._nothing_is_stuck(read)
            yield from self._nothing_is_passed_over(read)

    def _nothing_is_stuck(self, read: ShareGroupRead) -> Iterator[str]:
        if read.start_offset < read.end_offset:
            yield f"{read.group} is stuck at {_at(read.place, read.start_offset)} of {read.end_offset}"

    def _nothing_is_passed_over(self, read: ShareGroupRead) -> Iterator[str]:
        """Everything that is there was acknowledged by somebody, or given up after enough deliveries."""
        final = self.finals.get(read.place)
        for offset, _ in final.records if final is not None else ():
            record = self.records.get((read.group, read.place, offset), _Deliveries())
            # An acknowledgement without an answer may have been taken.
            if any(each.kind in _FINAL and each.error <= 0 for each in record.settled):
                continue
            # Deliveries that nobody heard of count, too.
            seen = max((each.delivery_count for each in record.acquired), default=0)
            # Behind the start of a group that is stuck nothing was passed over yet.
            if offset < read.start_offset and seen + self.unknown[read.group] < read.delivery_limit:
                yield f"{_at(read.place, offset)} in {read.group} was passed over after {seen} deliveries"


def _settled_stays_settled(where: str, record: _Deliveries) -> Iterator[str]:
    for settled in record.settled:
        # A released record comes again, and one whose acknowledgement had no answer may.
        if settled.kind not in _FINAL or settled.error:
            continue
        for again in record.acquired:
            if again.begun_us >= settled.at_us:
                yield f"{where}: {settled.client} {settled.kind} it, and {again.client} gets it again"


def _counts_rise(where: str, record: _Deliveries, limit: int) -> Iterator[str]:
    counts: dict[int, RecordsAcquired] = {}
    for number, each in enumerate(record.acquired):
        if limit and each.delivery_count > limit:
            yield f"{where}: {each.client} gets it for delivery {each.delivery_count} of at most {limit}"
        # A node that ends while a member has it for the last time lets it be delivered once more.
        if limit and each.delivery_count == limit:
            continue
        # At all times: each delivery has its own number.
        other = counts.setdefault(each.delivery_count, each)
        if other is not each:
            yield f"{where}: {other.client} and {each.client} both get it for delivery {each.delivery_count}"
        for before in record.acquired[:number]:
            if before.at_us <= each.begun_us and before.delivery_count > each.delivery_count:
                yield f"{where}: {each.client} gets delivery {each.delivery_count} after {before.delivery_count}"


def _one_holder(where: str, record: _Deliveries, limit: int) -> Iterator[str]:
    held = {(each.client, each.delivery_count): each for each in record.acquired}
    for settled in record.settled:
        acquired = held.get((settled.client, settled.delivery_count))
        if settled.error or acquired is None:
            continue
        # Until here it was the member's for certain.
        until_us = min(settled.begun_us, acquired.begun_us + int(acquired.lock_us * CLOCK_MARGIN))
        # A group whose progress could not be stored starts again from what was, without locks; so does a new leader.
        # Then another member may have finished the record before the first spoke, whose word is taken as a repetition.
        if any(_may_have_finished(each, settled) for each in record.settled):
            continue
        # So does a record that is given up, as its last member has gone without a word.
        if limit and any(_may_be_given_up(each, record, settled, limit) for each in record.acquired):
            continue
        finished = {(each.client, each.delivery_count) for each in record.settled if each.begun_us <= settled.at_us}
        for other in record.acquired:
            if other is acquired or (other.client, other.delivery_count) in finished:
                continue
            if acquired.at_us <= other.begun_us and other.at_us <= until_us:
                yield f"{where}: {other.client} gets it while {acquired.client} has it"


def _may_have_finished(other: RecordsSettled, settled: RecordsSettled) -> bool:
    """Return True for the end of another delivery that the node may have carried out before this one."""
    is_same = (other.client, other.delivery_count) == (settled.client, settled.delivery_count)
    return not is_same and other.kind in _FINAL and other.error <= 0 and other.begun_us <= settled.at_us


def _may_be_given_up(other: RecordsAcquired, record: _Deliveries, settled: RecordsSettled, limit: int) -> bool:
    """Return True for a last delivery that may have ended before this, by the end of its member's connection."""
    key = (other.client, other.delivery_count)
    if other.delivery_count < limit or key == (settled.client, settled.delivery_count):
        return False
    has_spoken = any((each.client, each.delivery_count) == key and not each.error for each in record.settled)
    return other.begun_us <= settled.at_us and not has_spoken


def _at(place: Place, offset: int) -> str:
    return f"{place[0]}-{place[1]} at {offset}"
