"""Topics that demand schemas: batches whose records name schemas that the registry does not have are refused.

Strategy: an examination finds the ids of a batch (`record_checks`); here they are looked up in the memory of this
node's schema registry. What is not there may have been registered a moment ago: the request is held while the registry
reads what is new, and looked at again. A node without a registry takes no records of such topics.

Knows nothing of schemas: the registry implements `KnownSchemas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hutong.broker.produce.record_checks import CheckedBatch, RefusedRecords
from hutong.foundation.errors import HutongError, Refused
from hutong.reactor.connections.channel import HELD, Held
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.broker.handling.session import ClientSession
    from hutong.broker.produce.examinations import Outcome
    from hutong.broker.topics.partition import Topic
    from hutong.broker.topics.schema_demands import SchemaDemand
    from hutong.foundation.waiting.pending import Continuation


class KnownSchemas(Protocol):
    """The schemas that this node's registry has in memory."""

    @property
    def is_current(self) -> bool:
        """False where this node has more of the registry's topic than is in memory."""
        ...

    def is_registered(self, topic: str, demand: SchemaDemand, schema_id: int) -> bool: ...

    def refresh(self, then: Continuation[None]) -> None:
        """Read what is new, here and at the node that writes; `then` is called later."""
        ...


class SchemaGate:
    """All requests for topics that demand schemas. `known` is None without a registry."""

    def __init__(self) -> None:
        self.known: KnownSchemas | None = None
        self._refreshed: dict[ClientSession, HutongError | None] = {}

    def look(
        self, topics: Sequence[Topic | None], outcomes: Sequence[Outcome | None], session: ClientSession
    ) -> Sequence[Outcome | None] | Held:
        """The outcomes with the refusals of batches whose schemas are not known, or HELD; then it is released.

        There is a topic for each outcome.
        """
        is_refreshed = session in self._refreshed
        failure = self._refreshed.pop(session, None)
        refusals: dict[int, Refused] = {}
        for place, (topic, outcome) in enumerate(zip(topics, outcomes, strict=True)):
            if topic is not None and isinstance(outcome, CheckedBatch):
                refused = self._refusal(topic, outcome)
                if refused is not None:
                    refusals[place] = refused
        is_certain = not refusals and self.known is not None and self.known.is_current
        if self.known is not None and not is_certain and not is_refreshed:
            self.known.refresh(lambda error: self._ended(session, error))
            return HELD
        # Nobody knows whether there are such schemas: the producer sends the records again.
        if failure is not None:
            message = f"The schema registry does not answer: {failure}"
            refusals = dict.fromkeys(refusals, Refused(ErrorCode.NOT_ENOUGH_REPLICAS, message))
        return [refusals.get(place, outcome) for place, outcome in enumerate(outcomes)]

    def forget(self, session: ClientSession) -> None:
        """Forget a connection that has ended."""
        self._refreshed.pop(session, None)

    def _ended(self, session: ClientSession, error: HutongError | None) -> None:
        if not session.owner.has_ended:
            self._refreshed[session] = error
            session.release()

    def _refusal(self, topic: Topic, outcome: CheckedBatch) -> Refused | None:
        for demand, first in outcome.schema_ids:
            if self.known is None:
                message = f"Topic {topic.name} demands schemas, and this node has no schema registry."
                return Refused(ErrorCode.POLICY_VIOLATION, message)
            for schema_id, index in first.items():
                # The first one is enough: a batch may name many that nobody has.
                if not self.known.is_registered(topic.name, demand, schema_id):
                    place = demand.place(topic.name)
                    message = f"The schema id {schema_id} of a {demand.field} is not {place}."
                    return RefusedRecords(ErrorCode.INVALID_RECORD, message, [index])
        return None
