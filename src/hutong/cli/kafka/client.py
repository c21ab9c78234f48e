"""The Kafka client behind the commands: connect, ask, and say in one sentence why not.

Strategy: confluent-kafka does all talking. Before its first use the address is tried by a plain TCP connection, because
librdkafka retries an absent broker for as long as it is let, and a person who typed a wrong port should know at once.

Behind an address that accepts connections and gives no answer, an HTTP server is looked for: the page of metrics has a
port next to the broker's.

Knows nothing of how results are shown.
"""

import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from hutong.cli.kafka import client_config
from hutong.cli.nearest import did_you_mean
from hutong.foundation.addresses import scheme_advice
from hutong.foundation.errors import ExitCode, UsageError

CONNECT_TIMEOUT_SECONDS = 3.0
REQUEST_TIMEOUT_SECONDS = 15.0
HTTP_TIMEOUT_SECONDS = 1.0  # for an answer to the question for an HTTP server
CHECK_SECONDS = 1.0  # between two checks for a refusal, while an answer is awaited

T = TypeVar("T")

UNREACHABLE = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
}
UNKNOWN_TOPIC = {KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART}
REFUSED_ACCESS = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
UNSUPPORTED = {KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION}


def configuration(bootstrap: str, **settings: Any) -> dict[str, Any]:
    """Client settings that every command shares, and those of `--client-config`.

    librdkafka's own messages are silenced: errors reach us as values.
    """
    shared = {"bootstrap.servers": bootstrap, "client.id": "hutong-cli", "log_level": 2, "error_cb": _refusals.heard}
    asked = {key.replace("_", "."): value for key, value in settings.items()}
    return shared | dict(client_config.current()) | asked


class _Refusals:
    """The newest refusal of our login. librdkafka reports it by a callback; its calls only find no broker.

    `doubtful` are the addresses that accepted a connection, until they were asked for HTTP or a broker answered.
    """

    def __init__(self) -> None:
        self.newest: KafkaError | None = None
        self.doubtful: list[tuple[str, int]] = []

    def heard(self, error: KafkaError) -> None:
        if error.code() in REFUSED_ACCESS:
            self.newest = error


_refusals = _Refusals()


def admin(bootstrap: str) -> AdminClient:
    return _made(AdminClient, bootstrap)


def producer(bootstrap: str, **settings: Any) -> Producer:
    return _made(Producer, bootstrap, **settings)


def consumer(bootstrap: str, **settings: Any) -> Consumer:
    """`group_id` is required by librdkafka even where no group is joined."""
    return _made(Consumer, bootstrap, **settings)


def _made(kind: Callable[[dict[str, Any]], T], bootstrap: str, **settings: Any) -> T:
    reach(bootstrap)
    _refusals.newest = None
    try:
        return kind(configuration(bootstrap, **settings))
    except KafkaException as error:  # a property of --client-config that it does not take
        raise UsageError(
            f"The client's configuration is refused: {error.args[0].str().rstrip('.')}.", ExitCode.CONFIG
        ) from None


def reach(bootstrap: str) -> None:
    """Raises UsageError unless one of the comma-separated addresses accepts a connection."""
    reasons = []
    for address in bootstrap.split(","):
        if "://" in address:
            raise UsageError(f"{address!r} is no broker address; write it{scheme_advice(address)}.")
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit() or int(port) > 65_535:
            raise UsageError(f"{address!r} is no broker address; write HOST:PORT.")
        place = (host.strip("[]"), int(port))
        try:
            socket.create_connection(place, CONNECT_TIMEOUT_SECONDS).close()
        except OSError as error:
            reasons.append(error.strerror or str(error))
        else:
            _refusals.doubtful = [place]
            return
    raise UsageError(
        f"No broker answers at {bootstrap} ({reasons[-1]}); "
        "start one with `hutong serve` or name another with --bootstrap.",
        ExitCode.UNAVAILABLE,
    )


def result(future: "Future[T]", subject: str) -> T:
    """The value of an admin call about `subject`. Raises UsageError in its place."""
    for _ in range(int(REQUEST_TIMEOUT_SECONDS / CHECK_SECONDS)):
        try:
            return future.result(CHECK_SECONDS)
        except KafkaException as error:
            raise failure(error, subject) from None
        except TimeoutError:
            check_access()
    raise UsageError(f"The broker did not answer within {REQUEST_TIMEOUT_SECONDS:g} s.", ExitCode.UNAVAILABLE)


def check_access() -> None:
    """Raises UsageError if brokers refuse to let us in, or are none: librdkafka itself would go on trying."""
    if _refusals.newest is not None:
        raise failure(_refusals.newest, "connection")
    # Asked once, and only where no answer came: a broker would log the question as a broken request.
    while _refusals.doubtful:
        host, port = _refusals.doubtful.pop()
        if _speaks_http(host, port):
            raise UsageError(
                f"{host}:{port} is an HTTP server, such as a node's page of metrics, and no broker; name the address "
                "after kafka= in the node's ready line.",
                ExitCode.UNAVAILABLE,
            )


def _speaks_http(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), HTTP_TIMEOUT_SECONDS) as connection:
            connection.settimeout(HTTP_TIMEOUT_SECONDS)
            connection.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            return connection.recv(5) == b"HTTP/"
    except OSError:
        return False


def failure(error: KafkaException | KafkaError, subject: str) -> UsageError:
    """Translate a failure of `subject` (a topic, a group) into a sentence and an exit code."""
    cause: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    refusal = cause if cause.code() in REFUSED_ACCESS else _refusals.newest
    code = cause.code()
    if refusal is not None and code in UNREACHABLE | REFUSED_ACCESS:
        return UsageError(
            f"The broker did not let us in ({refusal.str().rstrip('.')}); --client-config names a file with "
            "security.protocol, sasl.mechanism, sasl.username, sasl.password and ssl.ca.location.",
            ExitCode.NOPERM,
        )
    if code in UNREACHABLE:
        return UsageError(f"The broker stopped answering ({cause.str()}); is it still running?", ExitCode.UNAVAILABLE)
    if code in UNKNOWN_TOPIC:
        return UsageError(f"There is no {subject}; `hutong topic list` shows what there is.", ExitCode.NOINPUT)
    if code == KafkaError._UNKNOWN_PARTITION:
        return UsageError(f"The {subject} has no such partition; `hutong topic describe` shows them.", ExitCode.NOINPUT)
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return UsageError(f"The {subject} exists already; `--if-absent` accepts that.", ExitCode.CANTCREAT)
    if code == KafkaError.GROUP_ID_NOT_FOUND:
        return UsageError(f"There is no {subject}; `hutong group list` shows what there is.", ExitCode.NOINPUT)
    if code in {KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID}:
        return UsageError(f"The {subject} has members; stop them first.", ExitCode.TEMPFAIL)
    if code == KafkaError.INVALID_RECORD:
        return UsageError(
            f"The broker refused a record of the {subject}: a compacted topic needs keys, one with "
            "confluent.value.schema.validation the id of a schema; `hutong topic describe` shows the settings.",
            ExitCode.PROTOCOL,
        )
    if code in UNSUPPORTED:
        return UsageError("This broker does not offer that operation.", ExitCode.UNAVAILABLE)
    return UsageError(f"The broker refused the {subject}: {cause.str().rstrip('.')}.", ExitCode.PROTOCOL)


def topics(client: AdminClient | Producer) -> dict[str, Any]:
    """Name → metadata of every topic; nodes of Hutong list no internal one that is not in use.

    Asking for all creates none, as asking by name may do.
    """
    last: KafkaException | None = None
    for _ in range(int(REQUEST_TIMEOUT_SECONDS / CHECK_SECONDS)):
        try:
            found: dict[str, Any] = client.list_topics(timeout=CHECK_SECONDS).topics
        except KafkaException as error:
            last = error
            if error.args[0].code() not in UNREACHABLE:
                break
            client.poll(0)  # so that we hear why
            check_access()
        else:
            return found
    assert last is not None
    raise failure(last, "list of topics") from None


def with_internal(client: AdminClient, listed: Mapping[str, Any]) -> dict[str, Any]:
    """The listed topics, and those internal ones of Hutong that are listed for nobody. DescribeTopics creates none."""
    from hutong.broker.topics.internal_topics import INTERNAL_TOPICS

    hidden = sorted(INTERNAL_TOPICS - listed.keys())
    found = dict(listed)
    if hidden:
        for name, future in client.describe_topics(TopicCollection(hidden)).items():
            try:
                described = future.result(REQUEST_TIMEOUT_SECONDS)
            except KafkaException:  # a broker that has no such topic, or does not show it to us
                continue
            found[name] = SimpleNamespace(partitions={at.id: _partition(at) for at in described.partitions})
    return found


def _partition(described: Any) -> SimpleNamespace:
    """A partition of DescribeTopics as Metadata shows it."""
    leader = -1 if described.leader is None else described.leader.id
    replicas, in_sync = ([node.id for node in nodes] for nodes in (described.replicas, described.isr))
    return SimpleNamespace(id=described.id, leader=leader, replicas=replicas, isrs=in_sync)


def partitions_of(client: AdminClient, topic: str, only: int | None = None) -> list[int]:
    """The topic's partition numbers, or `only` this one. Creates nothing. Raises UsageError for what is not there."""
    found = topic_metadata(client, topic)
    if only is not None and only not in found.partitions:
        raise UsageError(f"The topic {topic} has no partition {only}.", ExitCode.NOINPUT)
    return sorted(found.partitions) if only is None else [only]


def topic_metadata(client: AdminClient, topic: str) -> Any:
    """The metadata of one topic. Creates nothing. Raises UsageError where there is no such topic."""
    known = topics(client)
    if topic not in known and topic.startswith("__"):
        known = with_internal(client, known)
    if topic not in known:
        raise missing_topic(topic, known)
    return known[topic]


def missing_topic(topic: str, known: Iterable[str]) -> UsageError:
    """The error of a topic that is not among the `known` ones."""
    near = did_you_mean(topic, known) or ";"
    return UsageError(f"There is no topic {topic}{near} `hutong topic list` shows what there is.", ExitCode.NOINPUT)


def offsets(client: AdminClient, partitions: Iterable[tuple[str, int]], spec: OffsetSpec) -> dict[tuple[str, int], int]:
    """(topic, partition) → the offset the `spec` describes, -1 where no record fits."""
    wanted = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    if not wanted:
        return {}
    futures: Mapping[TopicPartition, Future[Any]] = client.list_offsets(
        wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=REQUEST_TIMEOUT_SECONDS
    )
    return {(at.topic, at.partition): result(future, f"topic {at.topic}").offset for at, future in futures.items()}
