"""The promises of compacted topics: the newest acknowledged record of each key is there, and no older one returns.

Strategy: acknowledged records have offsets, so the newest of a key is known; one without an answer may be newer. A
tombstone may be gone, but only together with everything older of its key.

Of transactions those that were committed for certain count, those that were aborted for certain may not be seen by a
committed reader, and the others are like records without an answer.
"""

from collections import defaultdict
from collections.abc import Iterator

from hutong.testing.simulation.history import (
    FinalKeys,
    KeyedRecord,
    KeySent,
    SimulationHistory,
    TransactionEnded,
    ValueAcknowledged,
    ValueRefused,
)
from hutong.testing.simulation.history_text import Place


def check_compaction(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    check = _CompactionCheck(history)
    return [error for each in history.happenings if isinstance(each, FinalKeys) for error in check.errors(each)]


class _CompactionCheck:
    def __init__(self, history: SimulationHistory) -> None:
        self._sent: dict[bytes, KeySent] = {}
        self._offsets: dict[bytes, int] = {}  # of what was acknowledged
        self._refused: set[bytes] = set()  # or aborted
        ends: dict[str, bool] = {}
        for each in history.happenings:
            match each:
                case KeySent():
                    self._sent[each.value] = each
                case ValueAcknowledged():
                    self._offsets[each.value] = each.offset
                case ValueRefused():
                    self._refused.add(each.value)
                case TransactionEnded(is_certain=True):
                    ends[each.transaction] = each.is_commit
        for sent in self._sent.values():
            if sent.transaction is not None and not ends.get(sent.transaction):
                self._offsets.pop(sent.value, None)
                if sent.transaction in ends:
                    self._refused.add(sent.value)
        self._writes: dict[tuple[Place, bytes], list[KeySent]] = defaultdict(list)
        for sent in self._sent.values():
            self._writes[(sent.place, sent.key)].append(sent)

    def errors(self, final: FinalKeys) -> Iterator[str]:
        found: dict[bytes, list[KeyedRecord]] = defaultdict(list)
        for record in final.records:
            found[record.key].append(record)
            yield from self._as_it_was_sent(final.place, record)
        yield from _each_once(final)
        for (place, key), writes in self._writes.items():
            if place == final.place:
                yield from self._newest_is_there(final, key, writes, found[key])

    def _as_it_was_sent(self, place: Place, record: KeyedRecord) -> Iterator[str]:
        where, sent = f"{record.value!r} of {place[0]}-{place[1]} at {record.offset}", self._sent.get(record.value)
        if sent is None:
            yield f"{where} was never sent"
            return
        if (sent.place, sent.key, sent.is_tombstone) != (place, record.key, record.is_tombstone):
            yield f"{where} is not as it was sent"
        if record.value in self._refused:
            yield f"{where} was {'aborted' if sent.transaction else 'refused'}"
        if self._offsets.get(record.value, -1) not in (-1, record.offset):
            yield f"{where} was acknowledged at {self._offsets[record.value]}"

    def _newest_is_there(
        self, final: FinalKeys, key: bytes, writes: list[KeySent], found: list[KeyedRecord]
    ) -> Iterator[str]:
        known = [write for write in writes if self._is_known(write)]
        if not known:
            return
        newest = max(known, key=lambda write: self._offsets[write.value])
        offset = self._offsets[newest.value]
        where = f"{key!r} of {final.place[0]}-{final.place[1]}"
        # Of writes without an offset any may be newer, in the log or removed from it again.
        unsure = [write for write in writes if write.value not in self._refused and not self._is_known(write)]
        if any(record.offset >= offset for record in found):
            return
        if newest.is_tombstone and not final.keeps_tombstones:
            if found:
                yield f"{where} is back: {found[-1].value!r} at {found[-1].offset}, deleted at {offset}"
        elif not any(write.is_tombstone for write in unsure) or final.keeps_tombstones:
            yield f"{where} is lost: {newest.value!r} was acknowledged at {offset}"

    def _is_known(self, write: KeySent) -> bool:
        return self._offsets.get(write.value, -1) >= 0


def _each_once(final: FinalKeys) -> Iterator[str]:
    offsets: dict[bytes, int] = {}
    for record in final.records:
        if record.value in offsets:
            yield f"{record.value!r} is twice: at {offsets[record.value]} and {record.offset}"
        offsets[record.value] = record.offset
