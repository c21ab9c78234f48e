"""The internal topics of a streams group (KIP-1071), which the node creates in the name of the member that needs them.

Strategy: the client must be allowed to create all of them, else none is created, as in Kafka. The answer to the member
waits for the outcome, so that it says why a topic could not be created; members ask again while topics are missing.

Knows nothing of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hutong.broker.handling.holders import holder_of
from hutong.broker.rights.authorization import may_in_cluster, permitted
from hutong.broker.topics.replicas import check_replication_factor
from hutong.foundation.errors import HutongError, Refused
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.topics.partition import Topic
    from hutong.broker.topics.parts import TopicParts
    from hutong.groups.streams.topics import NewTopic

_DEFAULT: Final = -1
_THERE: Final = ErrorCode.TOPIC_ALREADY_EXISTS
"""Another member of the group may have asked for the topic first."""


def create_internal_topics(
    topics: Sequence[NewTopic], context: RequestContext[TopicParts], then: Callable[[str], None]
) -> None:
    """Create the topics; `then` gets a sentence about those that could not be created, or an empty text."""
    refused = _not_permitted([topic.name for topic in topics], context)
    if refused:
        then(f"Unauthorized to CREATE on topics {', '.join(refused)}.")
    elif context.broker.cluster.is_controller:
        _Creation(topics, context, then).begin()
    else:
        _create_remotely(topics, context, then)


def _not_permitted(names: Sequence[str], context: RequestContext[TopicParts]) -> list[str]:
    # The cluster's right first, and quietly: without it the topic's right decides, and that refusal is the one to log.
    if may_in_cluster(context, Operation.CREATE, quietly=True):
        return []
    allowed = permitted(context, Operation.CREATE, ResourceType.TOPIC, names)
    return [name for name in names if name not in allowed]


class _Creation:
    """Topics that this node creates, being the controller."""

    def __init__(
        self, topics: Sequence[NewTopic], context: RequestContext[TopicParts], then: Callable[[str], None]
    ) -> None:
        self._topics = topics
        self._context = context
        self._then = then
        self._open_count = len(topics)
        self._failures: list[str] = []

    def begin(self) -> None:
        broker, holder = self._context.broker, holder_of(self._context)
        for topic in self._topics:

            def created(outcome: Topic | HutongError, name: str = topic.name) -> None:
                self._settle(name, outcome if isinstance(outcome, HutongError) else None)

            try:
                check_replication_factor(topic.replication_factor or _DEFAULT, self._context)
                broker.topics.get_or_create(topic.name, topic.partition_count, created, holder, dict(topic.configs))
            except Refused as refused:
                self._settle(topic.name, refused)

    def _settle(self, name: str, error: HutongError | None) -> None:
        if error is not None:
            self._failures.append(f"{name}: {error}")
        self._open_count -= 1
        if not self._open_count:
            self._then(_told(self._failures))


def _create_remotely(
    topics: Sequence[NewTopic], context: RequestContext[TopicParts], then: Callable[[str], None]
) -> None:
    from hutong.broker.topics.remote_creation import create_remotely, new_topic  # late: a node alone never needs it

    def answered(outcomes: Mapping[str, Refused | None] | HutongError) -> None:
        if isinstance(outcomes, HutongError):
            then(_told([str(outcomes)]))
            return
        failed = {name: error for name, error in outcomes.items() if error is not None and error.code != _THERE}
        then(_told([f"{name}: {error.message}" for name, error in failed.items()]))

    asked = []
    for topic in topics:
        asked.append(new_topic(topic.name, topic.partition_count, dict(topic.configs)))
        # A factor of the application's own is checked by the controller.
        asked[-1].replication_factor = topic.replication_factor or _DEFAULT
    create_remotely(context.broker.cluster, asked, context.session, context.client_id, answered)


def _told(failures: Sequence[str]) -> str:
    return f"Creation failed: {'; '.join(failures)}." if failures else ""
