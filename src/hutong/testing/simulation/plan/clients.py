"""Planned clients: a class for each kind, with everything that a client of the kind does not leave to chance.

`kind` names the class in files and on screens.
"""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Final

from hutong.wire.kafka.batch.compression import Compression


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClient:
    """A client. It pauses for `pause_ms` on average between two rounds of its work."""

    kind: ClassVar[str]
    name: str
    pause_ms: int = 0

    def __str__(self) -> str:
        traits = [each.name for each in dataclasses.fields(self) if each.name != "name"]
        return f"{self.name}: {self.kind}, " + ", ".join(f"{name}={getattr(self, name)}" for name in traits)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAdmin(PlannedClient):
    """An administrator with topics of its own."""

    kind: ClassVar[str] = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTemporaryUser(PlannedClient):
    """A user of temporary topics, each with this number of partitions and one batch in each.

    One request has batches of `batches_together` partitions. All are of one size, with `padding_bytes` of padding.
    """

    kind: ClassVar[str] = "temporary user"
    partitions: int
    batches_together: int
    padding_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopicClient(PlannedClient):
    """A client of one topic of the plan."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMover(PlannedTopicClient):
    """An administrator who moves single partitions of a topic between `nodes`, and takes this share of moves back."""

    kind: ClassVar[str] = "mover"
    partitions: int
    nodes: int
    replicas: int
    cancelled: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartitionClient(PlannedTopicClient):
    """A client of one partition."""

    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReader(PlannedPartitionClient):
    """A consumer with a partition assigned by hand."""

    kind: ClassVar[str] = "reader"
    is_committed: bool  # isolation.level=read_committed


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProducer(PlannedPartitionClient):
    """An idempotent producer. `acks` is 1 or -1.

    One that `sends_ahead` does not wait for the end of requests to a lost node before it goes on at the next leader.
    """

    kind: ClassVar[str] = "producer"
    acks: int
    codec: Compression = Compression.NONE
    is_uniform: bool = False  # all its batches have one size
    sends_ahead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedKeyedProducer(PlannedProducer):
    """An idempotent producer of a compacted topic, with this number of keys."""

    kind: ClassVar[str] = "keyed producer"
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMember(PlannedTopicClient):
    """A member of a consumer group, which reads a whole topic.

    The session timeout counts for members of the classic protocol; the broker has that of the others.
    """

    group: str
    is_committed: bool
    session_ms: int
    rebalance_ms: int
    instance: str = ""  # group.instance.id (KIP-345), empty for none; two may have the same by mistake
    may_stall: bool
    notices_silence: bool  # gives its partitions up after a session without an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClassicMember(PlannedMember):
    """A member by the classic protocol."""

    kind: ClassVar[str] = "classic member"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedConsumerMember(PlannedMember):
    """A member by the protocol of KIP-848."""

    kind: ClassVar[str] = "consumer member"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedShareMember(PlannedTopicClient):
    """A member of a share group (KIP-932)."""

    kind: ClassVar[str] = "share member"
    group: str
    always_accepts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTransactionalClient(PlannedTopicClient):
    """A client that writes to its topic in transactions. `transaction_version` is 1 or 2 (KIP-890)."""

    transactional_id: str
    timeout_ms: int
    transaction_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTransactionalProducer(PlannedTransactionalClient):
    """A transactional producer to the first `partitions` of its topic."""

    kind: ClassVar[str] = "transactional producer"
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedKeyedTeller(PlannedTransactionalProducer):
    """A transactional producer to a compacted topic, with this number of keys."""

    kind: ClassVar[str] = "keyed teller"
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedKeeper(PlannedTopicClient):
    """An administrator of groups without members."""

    kind: ClassVar[str] = "keeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProcessor(PlannedTransactionalClient):
    """A processor that reads one partition with its group, and writes to one of its topic (KIP-447)."""

    kind: ClassVar[str] = "processor"
    partition: int
    source: str
    source_partition: int
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCaller(PlannedClient):
    """A program that calls the node's service over connections, `calls_together` at once now and then.

    The service works for `work_ms` before or after the effect of some calls. The last two are between attempts.
    """

    kind: ClassVar[str] = "caller"
    calls_together: int
    timeout_ms: int
    retries: int
    work_ms: int
    padding_characters: int
    first_pause_ms: int
    first_patience_ms: int
    stream_items: int  # of each stream that it reads; 0: it reads none
    is_remembered: bool = False  # some of its calls ask for a service that remembers them


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBusMember(PlannedClient):
    """A client of the bus's TCP bridge, with this number of messages at once now and then."""

    kind: ClassVar[str] = "bus member"
    messages_together: int
    timeout_ms: int
    work_ms: int
    padding_characters: int
    is_listening: bool  # at the addresses that all members send to
    not_reading_ms: int  # at most, now and then


CLIENTS_BY_KIND: Final[dict[str, type[PlannedClient]]] = {
    each.kind: each
    for each in (
        PlannedReader,
        PlannedProducer,
        PlannedKeyedProducer,
        PlannedClassicMember,
        PlannedConsumerMember,
        PlannedShareMember,
        PlannedTransactionalProducer,
        PlannedKeyedTeller,
        PlannedKeeper,
        PlannedProcessor,
        PlannedAdmin,
        PlannedTemporaryUser,
        PlannedMover,
        PlannedCaller,
        PlannedBusMember,
    )
}
