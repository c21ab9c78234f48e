"""Topics that are found, or created by the node that may: this one, or the controller of a cluster.

Strategy: in a cluster the controller creates them in the client's name, and the answer waits until this node has heard
of the topic. Those who ask for the same topic meanwhile share the request.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.handling.own_session import own_session
from hutong.foundation.errors import HutongError, LimitExceeded, Refused
from hutong.foundation.waiting.table import WaitTable
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hutong.broker.broker import Broker
    from hutong.broker.handling.session import ClientSession
    from hutong.broker.topics.internal_topics import OwnTopic
    from hutong.broker.topics.partition import Topic
    from hutong.foundation.timers import TimerWheel
    from hutong.foundation.waiting.pending import Continuation

WAIT_MS_MAX: Final = 10_000
WAITING_MAX: Final = 10_000


class TopicCreation:
    """Finds topics, and creates those that are missing. Close it with the node."""

    def __init__(self, broker: Broker, timers: TimerWheel) -> None:
        self._broker = broker
        self._waiting: WaitTable[Topic] = WaitTable("topics that the controller creates", timers, WAITING_MAX)
        self._asked: set[str] = set()  # of the controller, which has not answered
        broker.topics.on_change.append(self._topic_changed)

    def get_or_create(
        self,
        asked: RequestContext[Any],
        name: str,
        partition_count: int,
        then: Continuation[Topic],
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """The topic, created first where it is missing, in the name of who asked. Raises Refused, LimitExceeded."""
        topics = self._broker.topics
        topic = topics.get(name)
        if topic is not None:
            then(topic)
        elif self._broker.cluster.is_alone:
            topics.get_or_create(name, partition_count, then, holder_of(asked), overrides or {})
        else:
            deadline_ms = self._broker.clock.monotonic_ms() + WAIT_MS_MAX
            self._waiting.park(name, then, deadline_ms=deadline_ms)
            if name not in self._asked:
                self._asked.add(name)
                self._ask_controller(asked.session, name, partition_count, overrides or {})

    def get_or_create_own(self, wanted: OwnTopic, then: Continuation[Topic]) -> None:
        """The same for a topic that the node itself needs; `then` gets each error."""
        asked: RequestContext[Any] = RequestContext(0, None, own_session(), self._broker)
        try:
            self.get_or_create(asked, wanted.name, wanted.partition_count, then, wanted.overrides)
        except (Refused, LimitExceeded) as error:
            then(error)

    def close(self, error: HutongError) -> None:
        """End all waits."""
        self._waiting.close(error)

    def _ask_controller(
        self, session: ClientSession, name: str, partition_count: int, overrides: Mapping[str, str]
    ) -> None:
        from hutong.broker.topics.remote_creation import create_remotely, new_topic  # late: a node alone never needs it

        topics = [new_topic(name, partition_count, overrides)]
        create_remotely(self._broker.cluster, topics, session, None, partial(self._answered, name))

    def _answered(self, name: str, outcome: Mapping[str, Refused | None] | HutongError) -> None:
        self._asked.discard(name)
        error = outcome if isinstance(outcome, HutongError) else outcome.get(name)
        # One that another node has asked for a moment earlier comes as well.
        if error is not None and not (isinstance(error, Refused) and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
            self._waiting.fail_all(name, error)

    def _topic_changed(self, topic: Topic, exists: bool) -> None:
        if exists:
            self._waiting.resume_all(topic.name, topic)
