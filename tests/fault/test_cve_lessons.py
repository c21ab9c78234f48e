"""What others' CVEs teach, each tried here under its number. Those about brokers are tried on a node, from outside.

RocketMQ 2023-33246, 2023-37582         settings changed at run time reach no shell and no path
Kafka    2022-34917                     nothing is allocated for a length that was only announced
Kafka    2023-34455, NATS 2026-27571    what is unpacked has a bound
NATS     2026-29785                     nothing is unpacked for who is not authenticated
Kafka    2023-25194, 2025-27818, -27819 no names of classes from settings
Kafka    2025-27817, 2024-31141         no URLs, files or variables from settings
Kafka    2024-56128                     SCRAM looks at the nonce, and wants TLS
Kafka    2021-38153                     secrets are compared in constant time
Kafka    2018-1288, 2017-12610, 2018-17196  no forged followers or principals, and transactions ask for rights too
"""

import contextlib
import hmac
import os
import pathlib
import socket
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import pytest
from bench.figures import memory
from bench.kafka_bytes import ProduceReplyLayout, produce_request, record_batch
from bench.processes import DidNotStart
from bench.raw_client import RawConnection, create_topic
from crc32c import crc32c
from tests.support.node import IS_HUTONG, Node
from tests.support.scram_client import ScramClient, responded

from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.security.sasl.plain import PlainExchange
from hutong.security.sasl.scram import ScramExchange
from hutong.security.sasl.scram_credentials import SHA_512, Credential, Mechanism, credential, decoy, salted_password
from hutong.security.sasl.steps import Accepted, Challenge, Rejected, SaslFault
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeRequest
from hutong.wire.kafka.apis.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from hutong.wire.kafka.apis.k30_create_acls import AclCreation, CreateAclsRequest
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.kafka.batch.compression import Compression, decompress
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame
from hutong.wire.kafka.schema import message_info

pytestmark = [pytest.mark.fault, pytest.mark.skipif(not IS_HUTONG, reason="these are Hutong's own lessons")]

MEBIBYTE: Final = 1 << 20
SASL: Final = ("kafka.protocol=SASL_PLAINTEXT", "sasl.allow_without_tls=true")
TOPIC, BROKER = 2, 4
GROWTH_MB_MAX: Final = 24.0
SALT: Final = b"pepper"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        create_topic(running.address, "target")
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node on which everybody must say who he is."""
    with Node(tmp_path_factory.mktemp("guarded"), *SASL) as running:
        yield running


def ask(connection: RawConnection, message: Any, version: int) -> Any:
    key = message_info(type(message)).api_key
    reply = connection.call(b"".join(encode_request_frame(message, version, 1, "lessons")))
    _, at = decode_response_header(reply[4:], key, version)
    return codecs.decode_response(key, version, reply[4:], at)


def alter(node: Node, kind: int, name: str, setting: str, value: str) -> ErrorCode:
    resource = AlterConfigsResource(kind, name, [AlterableConfig(setting, 0, value)])
    with RawConnection(node.address) as connection:
        (answer,) = ask(connection, IncrementalAlterConfigsRequest([resource]), 1).responses
        return ErrorCode(answer.error_code)


# -- what may be set while a node runs


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("rocketmqHome", "-c $@|sh . echo touch {path};"),
        ("configStorePath", "{path}"),
        ("log.dirs", "{path}"),
        ("node.data_dir", "{path}"),
        ("max.connections.per.ip.overrides", "$(touch {path}):5"),
        ("log.retention.ms", "`touch {path}`"),
    ],
)
def test_rocketmq_2023_33246_and_37582(node: Node, tmp_path: pathlib.Path, setting: str, value: str) -> None:
    """Only what is on the list is set, and only to what it may be: neither shells nor paths hear of it."""
    path = tmp_path / "made"
    assert alter(node, BROKER, "1", setting, value.format(path=path)) is not ErrorCode.NONE
    assert not path.exists()


def test_what_is_on_the_list_may_be_set(node: Node) -> None:
    assert alter(node, BROKER, "1", "log.retention.ms", "1000000") is ErrorCode.NONE


CLASSES: Final = (
    "authorizer.class.name",
    "metric.reporters",
    "principal.builder.class",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "listener.name.plaintext.plain.sasl.jaas.config",
    "interceptor.classes",
)


@pytest.mark.parametrize("setting", CLASSES)
@pytest.mark.parametrize("kind", [TOPIC, BROKER])
def test_kafka_2023_25194_and_2025_27818_and_27819(node: Node, setting: str, kind: int) -> None:
    """`com.sun.security.auth.module.JndiLoginModule required ...;` has nowhere to go."""
    value = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://127.0.0.1/x";'
    assert alter(node, kind, "1" if kind == BROKER else "target", setting, value) is not ErrorCode.NONE


def test_a_node_with_the_name_of_a_class_does_not_start(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DidNotStart, match="authorizer_class"):
        Node(tmp_path, "security.authorizer_class=os.system").start()


@pytest.mark.parametrize(
    "value", ["${env:HOME}", "${file:/etc/passwd:root}", "file:///etc/passwd", "http://127.0.0.1/"]
)
def test_kafka_2025_27817_and_2024_31141(node: Node, value: str) -> None:
    """Text that looks like a reference is text: nobody follows it, and the setting refuses it."""
    home = os.environ.get("HOME", "/nowhere").encode()
    resource = AlterConfigsResource(TOPIC, "target", [AlterableConfig("cleanup.policy", 0, value)])
    with RawConnection(node.address) as connection:
        message = IncrementalAlterConfigsRequest([resource])
        reply = connection.call(b"".join(encode_request_frame(message, 1, 1, "lessons")))
    assert home not in reply
    assert b"root:" not in reply
    assert alter(node, TOPIC, "target", "cleanup.policy", value) is ErrorCode.INVALID_CONFIG
    assert alter(node, BROKER, "1", "sasl.oauthbearer.token.endpoint.url", value) is not ErrorCode.NONE


# -- what bytes can do before and after it is known whose they are


def test_kafka_2022_34917(guarded: Node) -> None:
    """Before anybody is authenticated frames are small, and memory comes as bytes do."""
    before = memory(guarded.pid).rss_mb
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(RawConnection(guarded.address))
            connection.send(struct.pack(">i", 512 * 1024) + bytes(1000))
        too_large = stack.enter_context(RawConnection(guarded.address, 10))
        too_large.send(struct.pack(">i", 512 * 1024 + 1))
        assert too_large.is_closed_by_peer()
        assert memory(guarded.pid).rss_mb - before < GROWTH_MB_MAX


def zeros(mebibytes: int) -> bytes:
    return bytes(mebibytes * MEBIBYTE)


def gzip_bomb(mebibytes: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(zeros(1)) for _ in range(mebibytes)) + packer.flush()


def test_kafka_2023_34455() -> None:
    """A snappy block says how long it is unpacked, and lies: nothing is allocated for the lie."""
    for block in (b"\xff\xff\xff\xff\x0f" + bytes(16), b"\x80\x80\x80\x80\x08" + bytes(16)):
        framed = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
        for data in (block, framed, b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 2**31 - 1) + block):
            with pytest.raises((LimitExceeded, ProtocolError)):
                decompress(Compression.SNAPPY, data, MEBIBYTE)


def test_nats_2026_27571(node: Node) -> None:
    """Sixty-four megabytes of nothing in a few kilobytes, for a topic whose keys are looked at."""
    create_topic(node.address, "compacted", configs={"cleanup.policy": "compact"}, records=0)
    plain = record_batch([b"x"])
    body = gzip_bomb(64)
    fields = bytearray(plain[21:61])
    struct.pack_into(">h", fields, 0, Compression.GZIP)
    batch = with_crc(plain, bytes(fields) + body)
    assert len(batch) < MEBIBYTE
    before = memory(node.pid)
    with RawConnection(node.address) as connection:
        for _ in range(5):
            reply = connection.call(produce_request("compacted", batch))
            assert ProduceReplyLayout.of("compacted").error_code(reply) == ErrorCode.MESSAGE_TOO_LARGE
    after = memory(node.pid)
    assert after.peak_rss_mb - max(before.peak_rss_mb, before.rss_mb) < 60, "one batch at a time, 32 MiB unpacked"


def with_crc(head: bytes, checked: bytes) -> bytes:
    return head[:8] + struct.pack(">i", 9 + len(checked)) + head[12:17] + struct.pack(">I", crc32c(checked)) + checked


def test_nats_2026_29785(guarded: Node) -> None:
    """Records are not looked at, and their connection is closed, before anybody has said who he is."""
    record = Record(offset=0, timestamp_ms=0, key=None, value=zeros(8), headers=())
    batch = build_batch([record], compression=Compression.GZIP)
    data = PartitionProduceData(0, memoryview(bytes(batch)))
    message = ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=[data])])
    with RawConnection(guarded.address, 10) as connection:
        connection.send(b"".join(encode_request_frame(message, 9, 1, "lessons")))
        assert connection.is_closed_by_peer()


# -- passwords


class Users:
    """One of them, whose password is `pencil`."""

    kept = credential(SHA_512, salted_password(SHA_512, b"pencil", SALT, 4096), SALT, 4096)

    def credential(self, user: str, mechanism: Mechanism) -> Credential | None:
        return self.kept if user == "user" else None

    def decoy(self, user: str, mechanism: Mechanism) -> Credential:
        return decoy(mechanism, b"secret", user, 4096, len(SALT))


def test_kafka_2024_56128(tmp_path: pathlib.Path) -> None:
    """RFC 5802: the nonce of the second message must be both halves. And without TLS there is no SCRAM by accident."""
    for nonce in ("fyko+d2lbbFgONRv9qkxdawL", "fyko+d2lbbFgONRv9qkxdawLothers", "ours"):
        client, exchange = ScramClient("sha512", "user", b"pencil"), ScramExchange(SHA_512, Users(), "ours")
        challenge = responded(exchange, client.first())
        assert isinstance(challenge, Challenge)
        refused = responded(exchange, client.final(challenge.data, nonce=nonce))
        assert isinstance(refused, Rejected)
    with pytest.raises(DidNotStart, match="SASL_SSL"):
        Node(tmp_path, "kafka.protocol=SASL_PLAINTEXT").start()


def test_kafka_2021_38153(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are compared by `compare_digest` alone: without it nobody gets in."""
    compared: list[int] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(len(one))
        return len(compared) == 1  # the nonce, and not the proof

    client, exchange = ScramClient("sha512", "user", b"pencil"), ScramExchange(SHA_512, Users(), "ours")
    challenge = responded(exchange, client.first())
    assert isinstance(challenge, Challenge)
    final = client.final(challenge.data)
    with monkeypatch.context() as patched:
        patched.setattr(hmac, "compare_digest", compare)
        assert isinstance(responded(exchange, final), Rejected)
    assert len(compared) == 2
    right = ScramExchange(SHA_512, Users(), "ours")
    responded(right, client.first())
    assert isinstance(responded(right, final), Accepted)


# -- rights


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node on which everybody may read and write one topic, and nothing else."""
    folder = tmp_path_factory.mktemp("ruled")
    with Node(folder, "security.authorize=true", "security.super_users=User:ANONYMOUS") as open_node:
        create_topic(open_node.address, "shared")
        rules = [AclCreation(2, "shared", 3, "User:*", "*", operation, 3) for operation in (3, 4)]
        with RawConnection(open_node.address) as connection:
            results = ask(connection, CreateAclsRequest(rules), 2).results
            assert [result.error_code for result in results] == [0, 0]
    with Node(folder, "security.authorize=true") as running:
        yield running


def test_kafka_2018_1288(ruled: Node) -> None:
    """A client that claims to be a follower needs the right of one, however much it may read as itself."""
    with RawConnection(ruled.address) as connection:
        topics = [FetchTopic(topic="shared", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)])]
        for replica_id, code in ((-1, ErrorCode.NONE), (1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)):
            answer = ask(connection, FetchRequest(replica_id=replica_id, max_wait_ms=0, topics=topics), 11)
            found = answer.error_code or answer.responses[0].partitions[0].error_code
            assert found == code, replica_id
        markers = [WritableTxnMarker(1, 0, False, [WritableTxnMarkerTopic("shared", [0])], 0)]
        answer = ask(connection, WriteTxnMarkersRequest(markers), 1)
        assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_kafka_2017_12610(guarded: Node) -> None:
    """The name to act for must be the name that was proven."""
    refused = PlainExchange().respond(b"admin\0user\0pencil")
    assert isinstance(refused, Rejected)
    assert refused.fault is SaslFault.PRINCIPAL
    with RawConnection(guarded.address, 10) as connection:
        assert ask(connection, SaslHandshakeRequest("PLAIN"), 1).error_code == 0
        answer = ask(connection, SaslAuthenticateRequest(b"admin\0user\0pencil"), 1)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with contextlib.suppress(socket.timeout):
            assert connection.is_closed_by_peer()


def test_kafka_2018_17196(ruled: Node) -> None:
    """A Produce made by hand asks for the transactional id as the client's own steps would have."""
    batch = record_batch([b"v"])
    with RawConnection(ruled.address) as connection:
        for transactional_id, code in (
            (None, ErrorCode.NONE),
            ("theirs", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ):
            data = PartitionProduceData(0, memoryview(batch))
            topics = [TopicProduceData("shared", partition_data=[data])]
            answer = ask(connection, ProduceRequest(transactional_id, -1, 1000, topics), 9)
            assert answer.responses[0].partition_responses[0].error_code == code
