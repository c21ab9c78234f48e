"""State of a streams group: its topology, the topics that this comes to, and the tasks that follow.

A task that is active must run nowhere else, so a lock of the whole group belongs to it. The state of a task is a folder
of its process, which active, standby and warm-up tasks would all write to: so each role needs the process's lock, too,
and a task that changes its role or its member inside one process is given up first.

Knows no events.
"""

from collections.abc import Hashable, Iterable, Mapping
from hashlib import blake2b
from typing import Final

from hutong.groups.assigned.core import AssignedGroupCore
from hutong.groups.assigned.messages import RecordKind
from hutong.groups.assigned.states import AssignedGroupState
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue
from hutong.groups.streams.assignor import Runner, assign
from hutong.groups.streams.member import StreamsMember
from hutong.groups.streams.messages import Holding, TaskRole
from hutong.groups.streams.settings import StreamsGroupSettings, StreamsRules
from hutong.groups.streams.topics import ConfiguredTopology, configure
from hutong.groups.streams.topology import Topology

TOPOLOGY_BYTES_PER_BYTE: Final = 4  # with the objects and tables of the names
_NOTHING = ConfiguredTopology()


class StreamsGroupCore(AssignedGroupCore[StreamsMember, Holding]):
    """One group without its events. Each attribute without an underscore is for `machine.py` and `records.py`."""

    WHOLE_RECORDS = (RecordKind.GROUP, RecordKind.TOPOLOGY, RecordKind.TARGET_EPOCH)

    __slots__ = (
        "_believed",
        "_catalogue",
        "_hash",
        "_settings",
        "assigned_standbys",
        "configured",
        "endpoint_epoch",
        "shutdown_by",
        "topology",
    )

    times: StreamsRules

    def __init__(
        self, group_id: str, catalogue: TopicCatalogue, settings: StreamsGroupSettings, rules: StreamsRules
    ) -> None:
        super().__init__(group_id, rules)
        self.topology: Topology | None = None  # there is one as soon as there is a member
        self.configured = _NOTHING
        self.endpoint_epoch = 0  # rises with each change of what members with endpoints have; in memory alone
        self.shutdown_by: str | None = None  # the member that asked for the end of the whole application
        self._catalogue = catalogue
        self._settings = settings
        self.assigned_standbys = rules.standby_replicas  # of the last target
        self._hash = 0
        self._believed: int | None = None  # the hash of what was configured before a restart, until the first refresh

    # ---- questions

    @property
    def state(self) -> AssignedGroupState:
        if not self.is_dead and self.members and not self.configured.is_ready:
            return AssignedGroupState.NOT_READY
        return super().state

    @property
    def memory_bytes(self) -> int:
        topology_bytes = 0 if self.topology is None else self.topology.footprint_bytes
        return super().memory_bytes + TOPOLOGY_BYTES_PER_BYTE * topology_bytes

    @property
    def metadata_hash(self) -> int:
        """Of the topology's topics and how many partitions they have."""
        return self._hash

    @property
    def standbys_changed(self) -> bool:
        """Return True if the group's setting is not that of the last target."""
        return self.assigned_standbys != self.times.standby_replicas

    @property
    def topic_names(self) -> frozenset[str]:
        return frozenset() if self.topology is None else self.topology.topic_names

    # ---- topics and targets

    def believe(self, metadata_hash: int) -> None:
        """Take it that the topics had this hash when the group was stored. The next refresh compares it."""
        self.refresh_topics()
        self._believed = metadata_hash

    def refresh_topics(self) -> bool:
        if self.topology is None:
            return False
        before = self.configured
        self.configured = configure(self.topology, self._count_of, self._settings.tasks_max)
        self._hash = self._hash_of_topics(self.topology)
        believed, self._believed = self._believed, None
        return before != self.configured if believed is None else believed != self._hash

    def computed_targets(self) -> Mapping[str, frozenset[Holding]]:
        self.assigned_standbys = self.times.standby_replicas
        # A topology whose topics are not there has no tasks: nobody runs some of them while others cannot.
        if self.topology is None or not self.configured.is_ready:
            return dict.fromkeys(self.members, frozenset())
        workers = {
            member_id: Runner(
                member.process_id,
                self._target_tasks(member_id, TaskRole.ACTIVE),
                self._target_tasks(member_id, TaskRole.STANDBY),
            )
            for member_id, member in self.members.items()
        }
        shares = assign(workers, self.configured.task_counts, self.topology.stateful, self.assigned_standbys)
        return {
            member_id: frozenset(
                (role, subtopology, index)
                for role, tasks in ((TaskRole.ACTIVE, share.active), (TaskRole.STANDBY, share.standby))
                for subtopology, index in tasks
            )
            for member_id, share in shares.items()
        }

    def locks_of(self, member: StreamsMember, holdings: Iterable[Holding]) -> Iterable[Hashable]:
        for role, subtopology, index in holdings:
            if role is TaskRole.ACTIVE:
                yield subtopology, index
            yield subtopology, index, member.process_id

    def holdings_of(self, partitions: Iterable[tuple[bytes, int]]) -> Iterable[Holding | None]:
        for topic_id, index in partitions:
            topic = self._catalogue.by_id(topic_id)
            readers = () if topic is None or self.topology is None else self.topology.readers.get(topic.name, ())
            # Kafka Streams lets one subtopology read a topic. Of several the first one's task decides.
            yield (TaskRole.ACTIVE, readers[0], index) if readers else None

    def _target_tasks(self, member_id: str, role: TaskRole) -> frozenset[tuple[str, int]]:
        return frozenset((name, index) for has_as, name, index in self.targets[member_id] if has_as is role)

    def _count_of(self, name: str) -> int | None:
        topic = self._catalogue.get(name)
        return None if topic is None else topic.partition_count

    def _hash_of_topics(self, topology: Topology) -> int:
        digest = blake2b(digest_size=8)
        for name in sorted(topology.topic_names):
            topic = self._catalogue.get(name)
            if topic is not None:
                digest.update(topic.topic_id + topic.partition_count.to_bytes(4, "big"))
        return int.from_bytes(digest.digest(), "big", signed=True)

    def check_invariants(self) -> None:
        super().check_invariants()
        active = [each for member in self.members.values() for each in member.held() if each[0] is TaskRole.ACTIVE]
        assert len(active) == len(set(active)), "a task is active twice"
        counts = self.configured.task_counts
        is_current = self._believed is None and self.epoch == self.assignment_epoch
        if self.members and self.configured.is_ready and is_current:
            targets = [each[1:] for target in self.targets.values() for each in target if each[0] is TaskRole.ACTIVE]
            assert sorted(targets) == sorted((name, at) for name, n in counts.items() for at in range(n))
        assert all(member.epoch <= self.assignment_epoch for member in self.members.values())
