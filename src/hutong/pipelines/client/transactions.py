"""Transactions as their coordinators see them (KIP-98): started in one process, ended in another, described to any.

A transaction belongs to a transactional id and the last producer id and epoch for it, not to a connection. So a worker
begins one and writes, and the driver ends it. Every InitProducerId raises the epoch, which fences the previous owner of
the id and aborts its open transaction.

Partitions are announced (AddPartitionsToTxn) unless the cluster has `transaction.version` 2, where the first records do
that (KIP-890). EndTxn uses version 4 or below on both: the next InitProducerId raises the epoch in any case.

Knows nothing of queries and batches.
"""

from collections.abc import Iterable, Mapping, Sequence

from hutong.foundation.errors import Refused
from hutong.pipelines.client.cluster import Cluster, TopicPartition, raise_refusal
from hutong.pipelines.client.connection import (
    ADD_OFFSETS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    PRODUCE,
    BrokerConnection,
)
from hutong.pipelines.client.coordinators import CoordinatorKind, Coordinators
from hutong.pipelines.client.group_offsets import OffsetAndMetadata, fetch_offsets
from hutong.pipelines.client.identities import Identity, Producer, TransactionOutcome
from hutong.pipelines.errors import RETRIABLE
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hutong.wire.kafka.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from hutong.wire.kafka.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from hutong.wire.kafka.apis.k26_end_txn import EndTxnRequest
from hutong.wire.kafka.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from hutong.wire.kafka.apis.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from hutong.wire.kafka.apis.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse
from hutong.wire.kafka.error_codes import ErrorCode

ENDS_IN_FLIGHT_MAX = 256
FEATURES_FROM = 3
"""The first version of ApiVersions that has features (KIP-584)."""
VERSION_FEATURE = "transaction.version"
IMPLICIT = 2
"""The level of that feature from which a Produce of `IMPLICIT_PRODUCE` or above adds its partitions."""
IMPLICIT_PRODUCE = 12
ONGOING = "Ongoing"
COMMITS = frozenset({"PrepareCommit", "CompleteCommit"})


class TransactionClient:
    """Asks coordinators. Methods raise Unavailable, Refused or ProtocolError once trying again is over."""

    def __init__(self, cluster: Cluster) -> None:
        self.coordinators = Coordinators(cluster)
        self._are_supported: bool | None = None
        self._produce_version: int | None = None

    def are_supported(self) -> bool:
        """True if the cluster has transactions and can describe them (Kafka 3.0 and later)."""
        # Asked once: the answer changes only with an upgrade of the brokers.
        if self._are_supported is None:
            needed = (ADD_OFFSETS_TO_TXN, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS)
            cluster = self.coordinators.cluster
            self._are_supported = cluster.retrying(lambda: all(map(cluster.any_connection().speaks, needed)))
        return self._are_supported

    def produce_version(self) -> int:
        """The version of Produce to write with: below `IMPLICIT_PRODUCE`, partitions must be announced."""
        if self._produce_version is None:
            cluster = self.coordinators.cluster
            self._produce_version = cluster.retrying(lambda: _produce_version(cluster.any_connection()))
        return self._produce_version

    def init_producer(self, transactional_id: str, timeout_ms: int) -> Identity:
        """Take an id over: what its last owner left open is aborted, and its owner shut out."""
        request = InitProducerIdRequest(transactional_id, timeout_ms)

        def attempt() -> Identity:
            connection = self.coordinators.connection(CoordinatorKind.TRANSACTION, transactional_id)
            response: InitProducerIdResponse = connection.request(request)
            raise_refusal(response.error_code, f"no transaction can be begun for {transactional_id}")
            return Identity(transactional_id, Producer(response.producer_id, response.producer_epoch))

        return self.coordinators.retrying(attempt)

    def add_partitions(self, owner: Identity, partitions: Iterable[TopicPartition]) -> None:
        """Announces partitions that are going to be written."""
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for name, index in partitions:
            topics.setdefault(name, AddPartitionsToTxnTopic(name)).partitions.append(index)
        request = AddPartitionsToTxnRequest([], owner.transactional_id, *owner.producer, list(topics.values()))

        def attempt() -> None:
            connection = self.coordinators.connection(CoordinatorKind.TRANSACTION, owner.transactional_id)
            response: AddPartitionsToTxnResponse = connection.request(request)
            for topic in response.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    where = TopicPartition(topic.name, result.partition_index)
                    what = f"{where} cannot be written in transaction {owner.transactional_id}"
                    raise_refusal(result.partition_error_code, what)

        self.coordinators.retrying(attempt)

    def commit_offset(
        self, owner: Identity, group: str, partition: TopicPartition, committed: OffsetAndMetadata
    ) -> None:
        """Make an offset of a group part of the transaction."""
        adding = AddOffsetsToTxnRequest(owner.transactional_id, *owner.producer, group)
        offset = TxnOffsetCommitRequestPartition(partition.partition, committed.offset, -1, committed.metadata)
        topic = TxnOffsetCommitRequestTopic(partition.topic, [offset])
        committing = TxnOffsetCommitRequest(owner.transactional_id, group, *owner.producer, topics=[topic])
        what = f"offsets of group {group} cannot be part of transaction {owner.transactional_id}"

        def add() -> None:
            connection = self.coordinators.connection(CoordinatorKind.TRANSACTION, owner.transactional_id)
            raise_refusal(connection.request(adding).error_code, what)

        def commit() -> None:
            response: TxnOffsetCommitResponse = self.coordinators.connection(CoordinatorKind.GROUP, group).request(
                committing
            )
            for answer in response.topics:
                for result in answer.partitions:
                    raise_refusal(result.error_code, what)

        self.coordinators.retrying(add)
        self.coordinators.retrying(commit)

    def end(self, transactions: Sequence[Identity], *, is_commit: bool, retry_ms: int | None = None) -> list[Refused]:
        """End each; what was ended the same way before is ended well. The refusals of those that could not be."""
        left = {one.transactional_id: one for one in transactions}
        refused: list[Refused] = []

        def attempt() -> None:
            # Bounded: many requests without reading an answer could fill the sockets of both sides.
            while left:
                self._end_some(list(left)[:ENDS_IN_FLIGHT_MAX], left, refused, is_commit)

        self.coordinators.retrying(attempt, retry_ms)
        return refused

    def outcomes(self, transactions: Sequence[Identity]) -> dict[str, TransactionOutcome]:
        """Return the outcome of each transaction, by transactional id."""
        asked = {one.transactional_id: one for one in transactions}

        def attempt() -> dict[str, TransactionOutcome]:
            found = {}
            for connection, ids in self.coordinators.connections(CoordinatorKind.TRANSACTION, asked).items():
                response: DescribeTransactionsResponse = connection.request(DescribeTransactionsRequest(ids))
                for state in response.transaction_states:
                    found[state.transactional_id] = _outcome(state, asked[state.transactional_id])
            return found

        return self.coordinators.retrying(attempt) if asked else {}

    def offsets_of(
        self, group: str, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Fetch a group's committed offsets: see `fetch_offsets`."""
        return fetch_offsets(self.coordinators, group, partitions)

    def open_ids(self, prefix: str) -> list[str]:
        """The transactional ids with that beginning that have a transaction open, of all brokers."""
        cluster = self.coordinators.cluster
        request = ListTransactionsRequest([ONGOING])

        def ask() -> list[str]:
            found: list[str] = []
            # Named anew in each attempt: a broker that has ended stays silent, and others have its transactions.
            for address in cluster.brokers():
                response: ListTransactionsResponse = cluster.connection_to(address).request(request)
                raise_refusal(response.error_code, "transactions cannot be listed")
                found += [state.transactional_id for state in response.transaction_states]
            return found

        return [one for one in cluster.retrying(ask) if one.startswith(prefix)]

    def _end_some(self, ids: list[str], left: dict[str, Identity], refused: list[Refused], is_commit: bool) -> None:
        """Send all, then read the answers: coordinators write markers for several at a time."""
        sent = self.coordinators.connections(CoordinatorKind.TRANSACTION, ids)
        for connection, mine in sent.items():
            for one in mine:
                connection.send(EndTxnRequest(one, *left[one].producer, is_commit))
        failure: Refused | None = None
        for connection, mine in sent.items():
            for one in mine:
                try:
                    what = f"transaction {one} cannot be {'committed' if is_commit else 'aborted'}"
                    raise_refusal(connection.receive().error_code, what)
                except Refused as error:
                    # The others are finished first: one that is still in flight must not hold them up.
                    if error.code in RETRIABLE:
                        failure = error
                        continue
                    refused.append(error)
                del left[one]
        if failure is not None:
            raise failure


class OpenTransaction:
    """One open transaction of a writing worker: its partitions, and whether to announce them."""

    def __init__(self, transactions: TransactionClient, transactional_id: str, timeout_ms: int) -> None:
        self._transactions = transactions
        self._added: set[TopicPartition] = set()
        self.produce_version = transactions.produce_version()
        self.identity = transactions.init_producer(transactional_id, timeout_ms)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """To be called before records of these partitions are sent; cheap for those added before."""
        new = set(partitions) - self._added
        # Before KIP-890 only announced partitions get the marker that ends the transaction.
        if new and self.produce_version < IMPLICIT_PRODUCE:
            self._transactions.add_partitions(self.identity, sorted(new))
        self._added |= new


def _produce_version(connection: BrokerConnection) -> int:
    version = connection.version_of(PRODUCE)
    if version < IMPLICIT_PRODUCE:
        return version
    response: ApiVersionsResponse = connection.request(ApiVersionsRequest("hutong", "0"), FEATURES_FROM)
    raise_refusal(response.error_code, "the features of the cluster cannot be read")
    levels: Mapping[str, int] = {one.name: one.max_version_level for one in response.finalized_features}
    return version if levels.get(VERSION_FEATURE, 0) >= IMPLICIT else IMPLICIT_PRODUCE - 1


def _outcome(state: TransactionState, asked: Identity) -> TransactionOutcome:
    # Brokers forget an id after transactional.id.expiration.ms, long after its transaction ended.
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return TransactionOutcome.ABORTED
    raise_refusal(state.error_code, f"transaction {asked.transactional_id} cannot be looked at")
    if state.transaction_state in COMMITS:
        return TransactionOutcome.COMMITTED
    # A later owner of the id has another epoch: its open transaction is not the one asked for.
    is_same = asked.producer == (state.producer_id, state.producer_epoch)
    return TransactionOutcome.OPEN if state.transaction_state == ONGOING and is_same else TransactionOutcome.ABORTED
