"""The promise of processors: each record of a source becomes one value, and exactly one, up to the committed offset.

Strategy: linear in the history. Values know the record that they were made from. What a committed reader finds at the
end, and the group's committed offset at the end, must fit together: they are parts of the same transactions (KIP-447).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from hutong.testing.simulation.history import (
    FinalRead,
    Happening,
    OffsetCommitBegun,
    OffsetSeen,
    SimulationHistory,
    ValueSent,
)
from hutong.testing.simulation.history_text import Place


def check_processing(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    return list(_ProcessingCheck(history.happenings).errors())


class _ProcessingCheck:
    def __init__(self, happenings: Iterable[Happening]) -> None:
        self.sources: dict[bytes, tuple[Place, int]] = {}  # of values
        self.groups: dict[str, str] = {}  # of processors
        self.writers: dict[bytes, str] = {}
        self.committed: dict[Place, FinalRead] = {}
        self.last_offsets: dict[tuple[str, Place], int] = {}  # as the last question found them
        for each in happenings:
            match each:
                case ValueSent(source=(_, _) as source):
                    self.sources[each.value] = source
                    self.writers[each.value] = each.client
                case OffsetCommitBegun():
                    self.groups[each.client] = each.group
                case OffsetSeen():
                    self.last_offsets[each.group, each.place] = each.offset
                case FinalRead(is_committed=True):
                    self.committed[each.place] = each

    def errors(self) -> Iterator[str]:
        made = self._values_by_source()
        for (group, place), offsets in made.items():
            end = self.last_offsets.get((group, place), -1)
            for offset, values in offsets.items():
                if len(values) > 1:
                    yield f"{_at(place, offset)} became {values[0]!r} and {values[1]!r}"
                if offset >= end:
                    yield f"{_at(place, offset)} became {values[0]!r}, but {group} has committed {end}"
        for (group, place), end in self.last_offsets.items():
            if group not in self.groups.values() or place not in self.committed or (group, place) not in made:
                continue
            for offset, value in self.committed[place].records:
                if offset < end and offset not in made[group, place]:
                    yield f"{value!r} of {_at(place, offset)} became nothing, but {group} has committed {end}"

    def _values_by_source(self) -> dict[tuple[str, Place], dict[int, list[bytes]]]:
        """By group and source partition: the committed values of each offset."""
        made: dict[tuple[str, Place], dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        # A processor that committed nothing has a place here, too: its group has an offset all the same.
        for value, (place, _) in self.sources.items():
            made[self.groups.get(self.writers[value], ""), place]
        for final in self.committed.values():
            for _, value in final.records:
                if value in self.sources:
                    place, offset = self.sources[value]
                    made[self.groups.get(self.writers[value], ""), place][offset].append(value)
        return made


def _at(place: Place, offset: int) -> str:
    return f"{place[0]}-{place[1]} at {offset}"
