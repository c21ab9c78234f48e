"""The promises of high availability, checked while a simulation goes on: where each verticle runs, and how often.

    two         no two nodes run a verticle, of which both reach the membership and have done so for a while
    quorum      a group without its quorum runs nothing, nor does a node that is not among the members
    settled     where nothing has changed for a while, each verticle that was deployed runs once; without a quorum,
                not at all

Strategy: ten times a second this looks at what runs, and at which nodes are there. What a fault excuses ends
`LATE_US` after it, and what is settled has been so for `SETTLED_US`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hutong.testing.simulation.buses.plan import PlannedAvailability
from hutong.testing.simulation.buses.verticles import VerticleNotes
from hutong.testing.simulation.hosts.host import SimProcess
from hutong.testing.simulation.world import World

LATE_US: Final = 1_000_000
"""From the end of what disturbs a node until it has to know: two attempts to read, half a second apart."""
OUTSIDE_US: Final = 300_000
"""From the end of a session until its node runs nothing: news of it takes no time here."""
SETTLED_US: Final = 4_000_000
"""As long as several nodes that have died need, each of which is taken over by one that dies."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node at one moment: stopped (SIGSTOP), or cut off from the membership."""

    process: str
    group: str
    is_stopped: bool
    is_cut: bool

    @property
    def is_away(self) -> bool:
        return self.is_stopped or self.is_cut


class AvailabilityHistory:
    """The verticles that there are, and the processes that run them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.deployed: dict[str, str] = {}  # the group of each whose deployment was reported, by its name
        self.doubtful: set[str] = set()  # those that may have ended with a node that has left in order
        self.runs: dict[str, set[str]] = {}  # processes by name of a verticle
        self.problems: list[str] = []

    def was_deployed(self, name: str, group: str) -> None:
        self.deployed[name] = group

    def may_have_ended(self, names: set[str]) -> None:
        self.doubtful |= names

    def died(self, process: str) -> None:
        for running in self.runs.values():
            running.discard(process)

    def began(self, name: str, process: SimProcess) -> None:
        self._world.note(process.name, f"runs {name}")
        running = self.runs.setdefault(name, set())
        if process.name in running:
            self.problems.append(f"{process.name} has two of the verticle {name}")
        running.add(process.name)

    def ended(self, name: str, process: SimProcess) -> None:
        self._world.note(process.name, f"ends {name}")
        self.runs[name].discard(process.name)

    def of_process(self, process: str) -> set[str]:
        return {name for name, running in self.runs.items() if process in running}


class ProcessNotes(VerticleNotes):
    """The notes of one process."""

    def __init__(self, history: AvailabilityHistory, process: SimProcess) -> None:
        self._history = history
        self._process = process

    def began(self, name: str) -> None:
        self._history.began(name, self._process)

    def ended(self, name: str) -> None:
        self._history.ended(name, self._process)


class AvailabilityWatch:
    """Made for one simulation. `look` now and again, and `errors` in the end."""

    def __init__(
        self,
        plan: PlannedAvailability,
        history: AvailabilityHistory,
        now_us: Callable[[], int],
        views: Callable[[], Sequence[NodeView]],
        members: Callable[[], Mapping[str, object]],
        faults: Callable[[], int],
    ) -> None:
        """`views()` has the processes that take part, `members()` those that the membership has, by their ids.

        `faults()` counts those that have begun.
        """
        self._plan = plan
        self._history = history
        self._now_us = now_us
        self._views = views
        self._members = members
        self._faults = faults
        self._group_of: dict[str, str] = {}  # of every process that took part
        self._away_us: dict[str, int] = {}  # when each was last away, or no member; what follows, too
        self._stopped_us: dict[str, int] = {}
        self._member_us: dict[str, int] = {}
        self._without_us: dict[str, int] = {}  # when the group had its quorum for the last time
        self._state: object = None
        self._state_us = 0  # since when it is so
        self._is_calm = False
        self._told: set[str] = set()

    def look(self) -> None:
        now_us, views = self._now_us(), self._views()
        self._group_of |= {view.process: view.group for view in views}
        members = [node for node in self._members() if node in self._group_of]
        for view in views:
            # One that has only begun is not known yet.
            is_new = view.process not in self._away_us
            if is_new or view.is_away or view.process not in members:
                self._away_us[view.process] = now_us
            if is_new or view.is_stopped:
                self._stopped_us[view.process] = now_us
            if is_new or view.process in members:
                self._member_us[view.process] = now_us
        for group in sorted(set(self._plan.groups)):
            if self._count(group, members) >= self._plan.quorum or group not in self._without_us:
                self._without_us[group] = now_us
        self._keep_state(now_us, views, members)
        for sentence in (*self._twice(now_us), *self._without_quorum(now_us, views), *self._settled(members)):
            # Once for each: it goes on being so.
            if sentence not in self._told:
                self._told.add(sentence)
                self._history.problems.append(sentence)

    def errors(self) -> Iterator[str]:
        """The promises that were broken. To be asked where all is quiet: then something was checked at least."""
        yield from self._history.problems
        if not self._is_settled:
            yield "the nodes with high availability did not settle after all faults"

    @property
    def _is_settled(self) -> bool:
        return self._is_calm and self._now_us() - self._state_us >= SETTLED_US

    def _count(self, group: str, members: list[str]) -> int:
        return sum([self._group_of[node] == group for node in members])

    def _keep_state(self, now_us: int, views: Sequence[NodeView], members: list[str]) -> None:
        processes = sorted([view.process for view in views])
        # A member that has died, or a node that is not a member: something is about to change.
        self._is_calm = processes == sorted(members) and not any(view.is_away for view in views)
        history = self._history
        # A session that is lost between two looks is begun anew: only the fault shows it.
        state = (processes, sorted(members), sorted(history.deployed), sorted(history.doubtful), self._faults())
        if state != self._state or not self._is_calm:
            self._state, self._state_us = state, now_us

    def _twice(self, now_us: int) -> Iterator[str]:
        for name, running in sorted(self._history.runs.items()):
            present = [each for each in sorted(running) if now_us - self._away_us.get(each, now_us) > LATE_US]
            if len(present) > 1:
                yield f"the verticle {name} runs on {' and on '.join(present)}"

    def _without_quorum(self, now_us: int, views: Sequence[NodeView]) -> Iterator[str]:
        # One alone is a quorum, whatever it reaches.
        if self._plan.quorum == 1:
            return
        for view in views:
            process = view.process
            running = sorted(self._history.of_process(process))
            # A session that has ended is known also to a node that is cut off.
            is_outside = now_us - max(self._member_us[process], self._stopped_us[process]) > OUTSIDE_US
            is_without = now_us - max(self._without_us[view.group], self._away_us[process]) > LATE_US
            if running and (is_outside or is_without):
                yield f"{process} runs {running[0]}, and its group has no quorum"

    def _settled(self, members: list[str]) -> Iterator[str]:
        if not self._is_settled:
            return
        history = self._history
        for name, group in sorted(history.deployed.items()):
            count = len(history.runs.get(name, ()))
            expected = int(self._count(group, members) >= self._plan.quorum)
            if count > expected or (count < expected and name not in history.doubtful):
                where = ", ".join(sorted(history.runs.get(name, ()))) or "no node"
                yield f"the verticle {name} runs on {where}, and should on {expected} node of {group}"
