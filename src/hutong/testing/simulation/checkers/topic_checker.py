"""The promises of the catalogue: what was created is there, what was deleted stays gone, starts never go back.

Strategy: a topic is changed by one client, so its state is known between two of its steps: the number of partitions, 0
for none. Changes at the same time may take effect in any order that fits their answers, and one without a clear answer
takes effect or does not.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import permutations

from hutong.testing.simulation.admin_history import LogStartSeen, TopicChanged, TopicSeen
from hutong.testing.simulation.clients.admin import CREATES, DELETES, GROWS, UNKNOWN
from hutong.testing.simulation.history import SimulationHistory
from hutong.testing.simulation.history_text import Place
from hutong.wire.kafka.error_codes import ErrorCode


def check_topics(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    checks: dict[str, _TopicCheck] = defaultdict(_TopicCheck)
    errors: list[str] = []
    for each in history.happenings:
        match each:
            case TopicChanged():
                errors += checks[each.topic].changed(each)
            case TopicSeen():
                errors += checks[each.topic].seen(each)
            case LogStartSeen():
                errors += checks[each.place[0]].start_seen(each)
    return errors


class _TopicCheck:
    """One topic's states."""

    def __init__(self) -> None:
        self._states = {0}
        self._together: list[TopicChanged] = []  # changes that met each other, and are not applied yet
        self._promises: dict[Place, LogStartSeen] = {}

    def changed(self, change: TopicChanged) -> Iterator[str]:
        if self._together and change.begun_us >= max(each.at_us for each in self._together):
            yield from self._apply()
        self._together.append(change)
        # A topic that is made again begins at 0.
        if change.kind == CREATES:
            self._promises.clear()

    def seen(self, seen: TopicSeen) -> Iterator[str]:
        yield from self._apply()
        if seen.partitions not in self._states:
            possible = " or ".join(map(str, sorted(self._states)))
            yield f"{seen.client} finds {seen.topic} with {seen.partitions} partitions instead of {possible}"
            self._states = {seen.partitions}

    def start_seen(self, seen: LogStartSeen) -> Iterator[str]:
        promise = self._promises.get(seen.place)
        if promise is not None and seen.begun_us >= promise.at_us and seen.offset < promise.offset:
            where = f"{seen.place[0]}-{seen.place[1]}"
            yield f"{where} starts at {seen.offset}, although {promise.client} was promised {promise.offset}"
        if seen.is_promise and (promise is None or seen.offset > promise.offset):
            self._promises[seen.place] = seen

    def _apply(self) -> Iterator[str]:
        together, self._together = self._together, []
        if not together:
            return
        # As in Kafka, a change may be refused because of one under way, which a crash then takes back.
        if any(each.error == UNKNOWN for each in together):
            together = [each for each in together if each.error in (UNKNOWN, ErrorCode.NONE)]
        states = {
            after for before in self._states for order in permutations(together) for after in _states(before, order)
        }
        if not states:
            answers = ", ".join(f"{each.kind} {each.partitions}: {each.error}" for each in together)
            possible = " or ".join(map(str, sorted(self._states)))
            yield f"the answers ({answers}) do not fit {together[0].topic} with {possible} partitions"
        self._states = states or self._states


def _states(before: int, changes: tuple[TopicChanged, ...]) -> set[int]:
    """The states after changes in this order, none where the answers do not fit."""
    states = {before}
    for change in changes:
        states = {after for state in states for after in _after(state, change)}
    return states


def _after(state: int, change: TopicChanged) -> tuple[int, ...]:
    refusal, after = ErrorCode.NONE, state
    if change.kind == CREATES:
        refusal = ErrorCode.TOPIC_ALREADY_EXISTS if state else ErrorCode.NONE
        after = state or change.partitions
    elif not state:
        refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif change.kind == DELETES:
        after = 0
    elif change.kind == GROWS:
        refusal = ErrorCode.NONE if change.partitions > state else ErrorCode.INVALID_PARTITIONS
        after = max(state, change.partitions)
    if change.error == UNKNOWN:
        return state, after
    return (after,) if change.error == refusal else ()
