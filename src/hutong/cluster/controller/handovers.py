"""Leaders that shall hand over while they live: first their followers get everything that was taken.

    wanted ──> AskToYield ──> the leader takes nothing more, and waits for its followers ──> Yielded ──> elected
                  │
                  └── no answer in YIELD_MS_MAX ──> elected

Strategy: acks=1 did not wait for followers, and the next leader would cut what it lacks. Who wants another leader asks
`may_leave` with each look, and gets True once. A wish that is not there any more at the end of a look is forgotten.

Knows nothing of reasons, nor of how a leader waits.
"""

from dataclasses import dataclass
from typing import Final

from hutong.cluster.controller.messages import AskToYield
from hutong.replication.group_state import PartitionGroupState

YIELD_MS_MAX: Final = 1_000  # a leader waits half as long; the rest is for the way


@dataclass(slots=True)
class _Handover:
    epoch: int
    until_ms: int
    has_yielded: bool = False


class Handovers:
    """The leaders that were asked to yield. `begin` and `end` embrace each look at the groups."""

    def __init__(self) -> None:
        self._now_ms = 0
        self._asked: dict[str, _Handover] = {}
        self._wanted: set[str] = set()
        self._questions: list[AskToYield] = []

    def begin(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._wanted.clear()

    def may_leave(self, state: PartitionGroupState) -> bool:
        """Return True if the group's present leader has yielded, or does not answer; else it is asked to."""
        self._wanted.add(state.name)
        handover = self._asked.get(state.name)
        if handover is None or handover.epoch != state.epoch:
            handover = self._asked[state.name] = _Handover(state.epoch, self._now_ms + YIELD_MS_MAX)
            self._questions.append(AskToYield(state.name, state.epoch, state.leader))
        return handover.has_yielded or self._now_ms >= handover.until_ms

    def is_under_way(self, group: str) -> bool:
        return group in self._asked

    def yielded(self, group: str, epoch: int) -> None:
        """Note that the leader of this epoch has yielded."""
        handover = self._asked.get(group)
        if handover is not None and handover.epoch == epoch:
            handover.has_yielded = True

    def end(self, epochs: dict[str, int]) -> list[AskToYield]:
        """Forget what is done, or not wanted any more, by the present `epochs`. Returns the questions to leaders."""
        kept = {name: each for name, each in self._asked.items() if epochs.get(name) == each.epoch}
        self._asked = {name: each for name, each in kept.items() if name in self._wanted}
        questions, self._questions = self._questions, []
        return questions

    def next_tick_ms(self) -> int | None:
        return min((each.until_ms for each in self._asked.values()), default=None)
