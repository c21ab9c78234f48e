"""The assignor of streams groups: every task has one active member, and stateful tasks have standbys elsewhere.

Strategy: moving a task costs the restoration of its state, so a member keeps what it had as far as the load stays even:
no member has more than one active task more than another. What must move goes first to a member whose process has the
state already, as a standby or because another member of the process had the task, then to the least loaded one.
Standby tasks are placed after all active ones: on other processes than the active task, each on a process of its own,
where they were before if that process is not among the busiest, else where the load is least. With too few processes
there are fewer standbys.

There are no warm-up tasks: no client of Kafka 4.3 says how far its tasks are behind.

Pure: the same input gives the same tasks.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

NAME: Final = "sticky"
Task: TypeAlias = tuple[str, int]
"""A subtopology and a partition."""


@dataclass(frozen=True, slots=True)
class Runner:
    """A member: the process it runs in, and what it had."""

    process_id: str
    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()


@dataclass(slots=True)
class Share:
    active: set[Task] = field(default_factory=set)
    standby: set[Task] = field(default_factory=set)

    @property
    def load(self) -> int:
        return len(self.active) + len(self.standby)


def assign(
    workers: Mapping[str, Runner],
    task_counts: Mapping[str, int],
    stateful: Collection[str],
    standby_replicas: int,
) -> dict[str, Share]:
    """The tasks of each member."""
    shares = {member_id: Share() for member_id in sorted(workers)}
    tasks = [(subtopology, index) for subtopology in sorted(task_counts) for index in range(task_counts[subtopology])]
    if not shares:
        return shares
    homes = _assign_active(workers, tasks, shares)
    if standby_replicas:
        _assign_standbys(workers, [task for task in tasks if task[0] in stateful], homes, shares, standby_replicas)
    return shares


# ---- active tasks


def _assign_active(
    workers: Mapping[str, Runner], tasks: Sequence[Task], shares: Mapping[str, Share]
) -> dict[Task, str]:
    """Give every task to one member; return the process of each."""
    owners = _kept(workers, tasks, shares)
    floor, extra = divmod(len(tasks), len(shares))
    # Members above the floor may be at most `extra`: then nobody has more than one task more than another.
    extra -= sum(len(share.active) > floor for share in shares.values())
    near = _holders_of_state(workers)
    left = []
    for task in tasks:
        if task in owners:
            continue
        # The state is there: a member of that process goes first, as long as it has room.
        fits = [member_id for member_id in near.get(task, ()) if len(shares[member_id].active) < floor]
        if fits:
            owners[task] = min(fits, key=lambda member_id: (len(shares[member_id].active), member_id))
            shares[owners[task]].active.add(task)
        else:
            left.append(task)
    # Those that may have one more than the floor: again near the state first.
    for task in left:
        fits = [member_id for member_id in near.get(task, ()) if len(shares[member_id].active) == floor]
        if fits and extra > 0:
            extra -= 1
            owners[task] = min(fits)
            shares[owners[task]].active.add(task)
    # State is nowhere, or where it is there is no room: the load alone decides.
    _fill(shares, [task for task in left if task not in owners], owners)
    return {task: workers[member_id].process_id for task, member_id in owners.items()}


def _kept(workers: Mapping[str, Runner], tasks: Sequence[Task], shares: Mapping[str, Share]) -> dict[Task, str]:
    """Let members keep what they had, each up to its even share."""
    known = set(tasks)
    floor, extra = divmod(len(tasks), len(shares))
    owners: dict[Task, str] = {}
    spare: list[tuple[str, Task]] = []
    for member_id, share in shares.items():
        # By partition, so that what it keeps is of all subtopologies alike: one may cost much more than another.
        for task in sorted(workers[member_id].active, key=lambda task: (task[1], task[0])):
            # Topics may have gone, and after a takeover two members may claim a task.
            if task not in known or task in owners:
                continue
            if len(share.active) < floor:
                share.active.add(task)
                owners[task] = member_id
            else:
                spare.append((member_id, task))
    # The rest of the division: some members may keep one more.
    for member_id, task in spare:
        if extra > 0 and len(shares[member_id].active) == floor and task not in owners:
            extra -= 1
            shares[member_id].active.add(task)
            owners[task] = member_id
    return owners


def _holders_of_state(workers: Mapping[str, Runner]) -> dict[Task, list[str]]:
    """The members of each process that had a task, as a standby or active."""
    members: dict[str, list[str]] = {}
    processes: dict[Task, set[str]] = {}
    for member_id in sorted(workers):
        worker = workers[member_id]
        members.setdefault(worker.process_id, []).append(member_id)
        for task in (*worker.active, *worker.standby):
            processes.setdefault(task, set()).add(worker.process_id)
    return {
        task: [member_id for process_id in sorted(found) for member_id in members[process_id]]
        for task, found in processes.items()
    }


def _fill(shares: Mapping[str, Share], tasks: Iterable[Task], owners: dict[Task, str]) -> None:
    # The least loaded member first; ties by name, so that the result does not depend on the order of joins.
    heap = [(len(share.active), member_id) for member_id, share in shares.items()]
    heapify(heap)
    for task in tasks:
        load, member_id = heappop(heap)
        shares[member_id].active.add(task)
        owners[task] = member_id
        heappush(heap, (load + 1, member_id))


# ---- standby tasks


class _Processes:
    """The processes by their load for each member, and the members of each."""

    def __init__(self, workers: Mapping[str, Runner], shares: Mapping[str, Share]) -> None:
        self._shares = shares
        self.members: dict[str, list[str]] = {}
        for member_id in shares:
            self.members.setdefault(workers[member_id].process_id, []).append(member_id)
        self.loads = Counter({
            process_id: sum(shares[member_id].load for member_id in members)
            for process_id, members in self.members.items()
        })  # fmt: skip
        self._heap = [(self._level(process_id), process_id) for process_id in self.members]
        heapify(self._heap)

    def least(self, without: Collection[str]) -> str | None:
        """The least loaded process that is not among these."""
        aside = []
        found = None
        while self._heap and found is None:
            level, process_id = heappop(self._heap)
            # An entry with an old load has a newer one in the heap.
            if level != self._level(process_id):
                continue
            aside.append((level, process_id))
            if process_id not in without:
                found = process_id
        for entry in aside:
            heappush(self._heap, entry)
        return found

    def place(self, task: Task, process_id: str) -> None:
        """Give a standby task to the process's least loaded member."""
        member_id = min(self.members[process_id], key=lambda member_id: (self._shares[member_id].load, member_id))
        self._shares[member_id].standby.add(task)
        self.loads[process_id] += 1
        heappush(self._heap, (self._level(process_id), process_id))

    def keep(self, task: Task, member_id: str, process_id: str) -> None:
        """Give a standby task to the member that had it."""
        self._shares[member_id].standby.add(task)
        self.loads[process_id] += 1
        heappush(self._heap, (self._level(process_id), process_id))

    def _level(self, process_id: str) -> float:
        return self.loads[process_id] / len(self.members[process_id])


def _assign_standbys(
    workers: Mapping[str, Runner],
    tasks: Sequence[Task],
    homes: Mapping[Task, str],
    shares: Mapping[str, Share],
    standby_replicas: int,
) -> None:
    processes = _Processes(workers, shares)
    # One process has the active task; a second copy in it would share its fate, and its folder.
    replicas = min(standby_replicas, len(processes.members) - 1)
    # What a member had it keeps up to its even share of all tasks, active and standby.
    even = -(-(sum(processes.loads.values()) + replicas * len(tasks)) // len(shares))
    had: dict[Task, list[str]] = {}
    for member_id in shares:
        for task in workers[member_id].standby:
            had.setdefault(task, []).append(member_id)
    taken: dict[Task, set[str]] = {task: {homes[task]} for task in tasks}
    for task in tasks:
        for member_id in had.get(task, ()):
            process_id = workers[member_id].process_id
            if len(taken[task]) <= replicas and process_id not in taken[task] and shares[member_id].load < even:
                taken[task].add(process_id)
                processes.keep(task, member_id, process_id)
    for task in tasks:
        while len(taken[task]) <= replicas:
            least = processes.least(taken[task])
            assert least is not None, "there are more processes than standbys"
            taken[task].add(least)
            processes.place(task, least)
