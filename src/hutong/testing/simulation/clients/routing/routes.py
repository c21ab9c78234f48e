"""The knowledge that one client has of a cluster: its nodes, and which of them leads, coordinates and controls.

Strategy: as real clients, from what nodes say in Metadata and FindCoordinator, and in answers that name a new leader
(KIP-951). An answer that says a node is the wrong one, and the loss of a connection, make the client forget who had the
task; the next request of the kind asks anew, any node. A leader of an older epoch than a known one is not believed
(KIP-320). A client that knows one node alone asks nothing.

Knows nothing of connections.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from hutong.testing.simulation.clients.routing.targets import NodeTask, RequestTarget
from hutong.testing.simulation.history_text import Place
from hutong.wire.kafka.apis.k01_fetch import FetchRequest
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsRequest
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from hutong.wire.kafka.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from hutong.wire.kafka.error_codes import ErrorCode

METADATA_VERSION: Final = 12
FIND_COORDINATOR_VERSION: Final = 3
WRONG_NODE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Answers after which a client asks anew who has the task."""
_KEY_TYPES: Final = {NodeTask.COORDINATES_GROUP: 0, NodeTask.COORDINATES_TRANSACTIONS: 1}
_SWITCH_SHARE: Final = 0.2  # of requests for any node: they go to another one than the one before
_NOBODY: Final = -1
Address = tuple[str, int]


class Routes:
    """Of one client. `bootstrap` are the nodes that it knows at first."""

    def __init__(self, bootstrap: Sequence[Address], random: Random) -> None:
        self._bootstrap = tuple(bootstrap)
        self._random = random
        self._nodes: dict[int, Address] = {}
        self._leaders: dict[Place, tuple[int, int]] = {}  # the node, and its epoch; nobody while it has to be found
        self._topic_ids: dict[str, bytes] = {}
        self._coordinators: dict[RequestTarget, Address] = {}
        self._controller = _NOBODY
        self._any = self._bootstrap[0]
        if not self.is_alone:
            self._any = random.choice(self._bootstrap)

    @property
    def is_alone(self) -> bool:
        """True where there is nothing to find."""
        return len(self._bootstrap) == 1

    # -- questions

    def address_of(self, target: RequestTarget) -> Address | None:
        """The node that has the task, as far as is known."""
        if self.is_alone or target.task is NodeTask.ANY:
            return self.anyone()
        if target.task is NodeTask.CONTROLS:
            return self._nodes.get(self._controller)
        if target.task is NodeTask.LEADS:
            node, _ = self._leaders.get((target.name, target.partition), (_NOBODY, _NOBODY))
            return self._nodes.get(node)
        return self._coordinators.get(target)

    def anyone(self) -> Address:
        """A node for requests that each can answer: mostly the same."""
        if not self.is_alone and self._random.random() < _SWITCH_SHARE:
            self._switch()
        return self._any

    def question_about(self, target: RequestTarget) -> tuple[Any, int]:
        """The request that asks any node who has the task, and its version."""
        if target.task in _KEY_TYPES:
            return FindCoordinatorRequest(target.name, _KEY_TYPES[target.task]), FIND_COORDINATOR_VERSION
        topics = [MetadataRequestTopic(bytes(16), target.name)] if target.task is NodeTask.LEADS else []
        return MetadataRequest(topics, False), METADATA_VERSION

    def mark_epochs(self, request: Any) -> None:
        """Say which leader it is meant for (KIP-320)."""
        if self.is_alone:
            return
        if isinstance(request, FetchRequest):
            for topic in request.topics:
                for part in topic.partitions:
                    part.current_leader_epoch = self._epoch_of((topic.topic, part.partition))
        elif isinstance(request, ListOffsetsRequest):
            for asked in request.topics:
                for each in asked.partitions:
                    each.current_leader_epoch = self._epoch_of((asked.name, each.partition_index))

    def _epoch_of(self, place: Place) -> int:
        return self._leaders.get(place, (_NOBODY, _NOBODY))[1]

    # -- answers

    def heard(self, target: RequestTarget, answer: Any, errors: Sequence[ErrorCode]) -> None:
        """Note what an answer says of nodes."""
        if self.is_alone:
            return
        if WRONG_NODE.intersection(errors):
            self._forget(target)
        if isinstance(answer, MetadataResponse):
            self._take_metadata(answer)
        elif isinstance(answer, FindCoordinatorResponse):
            if not answer.error_code:
                self._coordinators[target] = (answer.host, answer.port)
        elif target.task is NodeTask.LEADS:
            self._take_leader(target, answer)

    def is_from_controller(self, answer: MetadataResponse, address: Address) -> bool:
        """True where the node at this address, which gave the answer, says that it is the controller."""
        return self.is_alone or self._nodes.get(answer.controller_id) == address

    def lost(self, address: Address) -> None:
        """Note that a node does not answer: others may have its tasks by now."""
        if self.is_alone:
            return
        for place, (node, epoch) in self._leaders.items():
            if self._nodes.get(node) == address:
                self._leaders[place] = (_NOBODY, epoch)
        self._coordinators = {target: node for target, node in self._coordinators.items() if node != address}
        if self._nodes.get(self._controller) == address:
            self._controller = _NOBODY
        if self._any == address:
            self._switch()

    def _switch(self) -> None:
        others = [each for each in dict.fromkeys((*self._nodes.values(), *self._bootstrap)) if each != self._any]
        self._any = self._random.choice(others or self._bootstrap)

    def _forget(self, target: RequestTarget) -> None:
        place = (target.name, target.partition)
        if target.task is NodeTask.LEADS and place in self._leaders:
            self._leaders[place] = (_NOBODY, self._leaders[place][1])
        self._coordinators.pop(target, None)
        if target.task is NodeTask.CONTROLS:
            self._controller = _NOBODY

    def _take_metadata(self, answer: MetadataResponse) -> None:
        if answer.brokers:
            self._nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        self._controller = answer.controller_id
        for topic in answer.topics:
            if topic.error_code or topic.name is None:
                continue
            # A topic that was made anew begins with the epochs of another group.
            is_new = self._topic_ids.get(topic.name) != topic.topic_id
            self._topic_ids[topic.name] = topic.topic_id
            for part in topic.partitions:
                place = (topic.name, part.partition_index)
                if is_new or part.leader_epoch >= self._epoch_of(place):
                    self._leaders[place] = (part.leader_id, part.leader_epoch)

    def _take_leader(self, target: RequestTarget, answer: Any) -> None:
        """Believe an answer that names the new leader, if it is a newer one."""
        place = (target.name, target.partition)
        for topic in getattr(answer, "responses", ()):
            for part in getattr(topic, "partition_responses", None) or getattr(topic, "partitions", None) or ():
                named = getattr(part, "current_leader", None)
                if named is not None and part.error_code and named.leader_epoch > self._epoch_of(place):
                    self._leaders[place] = (named.leader_id, named.leader_epoch)
