"""The log's promises: acknowledged is there, once, in order; one value for an offset; nothing that was refused.

Strategy: linear in the history, as in the Kafka tests of Jepsen. Values are unique, so each has one place and at most
one offset. Every record that anybody ever read or was promised counts, from the first to the final read.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from hutong.testing.simulation.history import (
    FinalRead,
    Happening,
    SimulationHistory,
    ValueAcknowledged,
    ValueRead,
    ValueRefused,
    ValueSent,
)
from hutong.testing.simulation.history_text import Place


def check_log(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    return list(_Check(history.happenings).errors())


class _Check:
    def __init__(self, happenings: Iterable[Happening]) -> None:
        self.sent: dict[bytes, ValueSent] = {}
        self.refused: dict[bytes, ValueRefused] = {}
        self.acknowledged: list[ValueAcknowledged] = []
        self.reads: list[ValueRead] = []
        self.finals: dict[Place, FinalRead] = {}
        for each in happenings:
            match each:
                case ValueSent():
                    self.sent[each.value] = each
                case ValueAcknowledged():
                    self.acknowledged.append(each)
                case ValueRefused():
                    self.refused[each.value] = each
                case ValueRead():
                    self.reads.append(each)
                case FinalRead(is_committed=False):
                    self.finals[each.place] = each

    def errors(self) -> Iterator[str]:
        yield from self._one_value_for_an_offset()
        yield from self._acknowledged_is_there()
        yield from self._each_once_and_in_order()
        yield from self._readers_go_forward()
        yield from self._nothing_invented()
        yield from self._nothing_misplaced()

    def _one_value_for_an_offset(self) -> Iterator[str]:
        """Redpanda #3003: two answers that name one offset for different values."""
        values: dict[tuple[Place, int], bytes] = {}
        observed = [(each.place, each.offset, each.value) for each in self.acknowledged]
        observed += [(each.place, each.offset, each.value) for each in self.reads]
        for final in self.finals.values():
            observed += [(final.place, offset, value) for offset, value in final.records]
        for place, offset, value in observed:
            if offset >= 0 and values.setdefault((place, offset), value) != value:
                yield f"{_at(place, offset)} held {values[(place, offset)]!r} and {value!r}"

    def _acknowledged_is_there(self) -> Iterator[str]:
        present = {place: {value for _, value in final.records} for place, final in self.finals.items()}
        for each in self.acknowledged:
            final = self.finals.get(each.place)
            if final is None or each.value in present[each.place]:
                continue
            # Retention and DeleteRecords may have taken it.
            if final.start_offset and each.offset < final.start_offset:
                continue
            yield f"{each.value!r} was acknowledged in {_at(each.place, each.offset)} and is lost"

    def _each_once_and_in_order(self) -> Iterator[str]:
        for place, final in self.finals.items():
            seen: dict[bytes, int] = {}
            last: dict[str, tuple[int, bytes]] = {}
            for offset, value in final.records:
                if value in seen:
                    yield f"{value!r} is twice in {place[0]}-{place[1]}: at {seen[value]} and {offset}"
                seen[value] = offset
                if value not in self.sent:
                    continue
                client, number = self.sent[value].client, _number(value)
                if client in last and number < last[client][0]:
                    yield f"{value!r} is behind {last[client][1]!r} in {place[0]}-{place[1]}, although sent before it"
                last[client] = (number, value)

    def _readers_go_forward(self) -> Iterator[str]:
        """Within a session offsets ascend, and nothing that is there at the end was passed over."""
        positions: dict[tuple[str, int, Place], int] = {}
        seen: dict[tuple[str, int, Place], set[int]] = defaultdict(set)
        for each in self.reads:
            key = (each.client, each.session, each.place)
            if each.offset <= positions.get(key, -1):
                yield f"{each.client} read {_at(each.place, each.offset)} after {positions[key]}"
            positions[key] = each.offset
            seen[key].add(each.offset)
        committed = {(each.client, each.session) for each in self.reads if each.is_committed}
        for (client, session, place), offsets in seen.items():
            final = self.finals.get(place)
            # Of aborted transactions a committed reader sees nothing: the transactions' checker looks at those.
            if final is None or (client, session) in committed:
                continue
            first, end = min(offsets), max(offsets)
            missed = [offset for offset, _ in final.records if first < offset < end and offset not in offsets]
            if missed:
                yield f"{client} passed over {_at(place, missed[0])}, which is there"

    def _nothing_invented(self) -> Iterator[str]:
        for place, final in self.finals.items():
            for offset, value in final.records:
                if value not in self.sent:
                    yield f"{value!r} at {_at(place, offset)} was never sent"
                elif value in self.refused:
                    yield f"{value!r} at {_at(place, offset)} was refused with error {self.refused[value].error}"

    def _nothing_misplaced(self) -> Iterator[str]:
        """A value is where it was sent to, and in no other partition."""
        found = [(each.place, each.offset, each.value) for each in self.reads]
        for final in self.finals.values():
            found += [(final.place, offset, value) for offset, value in final.records]
        for place, offset, value in dict.fromkeys(found):
            sent = self.sent.get(value)
            if sent is not None and sent.place != place:
                yield f"{value!r} is in {_at(place, offset)}, although sent to {sent.place[0]}-{sent.place[1]}"


def _number(value: bytes) -> int:
    return int(value.rpartition(b"/")[2])


def _at(place: Place, offset: int) -> str:
    return f"{place[0]}-{place[1]} at {offset}"
