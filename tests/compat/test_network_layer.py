"""Every row of Kafka's network layer, each seen from outside: through sockets, settings and the metrics page.

A test is named after its row. What one event loop answers otherwise than Kafka's threads is said where it is tried.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Final
from urllib.request import urlopen

import pytest
from bench.kafka_bytes import CLIENT_ID, ProduceReplyLayout, fetch_request, produce_request, record_batch
from bench.raw_client import create_topic
from tests.support.exposition import ParsedFamily, parse
from tests.support.kio_client import KioClient
from tests.support.node import IS_HUTONG, Node
from tests.support.raw_kafka import Admin, RawClient, ping, request
from tests.support.sockets_of import connection_of
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not IS_HUTONG, reason="looks at this node's own settings and metrics")

METADATA: Final = 3
CREATE_TOPICS: Final = 19
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
SASL_AUTHENTICATION_FAILED: Final = 58
THROTTLING_QUOTA_EXCEEDED: Final = 89
LARGEST: Final = 1 << 20
BUFFER: Final = 200 * 1024
ROOM: Final = 100_000
LOOK_S: Final = 0.02
"""Between two looks for something."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """As installed, but for quotas that count one second, and for what a test could not see otherwise."""
    with Node(
        tmp_path_factory.mktemp("network"),
        "metrics.listen=127.0.0.1:0",
        "quota.window_num=2",
        f"network.max_frame_bytes={LARGEST}",
        f"network.send_buffer_bytes={BUFFER}",
        f"network.receive_buffer_bytes={BUFFER}",
        "network.slow_request_ms=1",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One request of a connection at a time, as Kafka has it, little room, and no patience."""
    with Node(
        tmp_path_factory.mktemp("strict"),
        "metrics.listen=127.0.0.1:0",
        "network.max_requests_in_flight=1",
        "network.queued_max_requests=20",
        f"network.queued_max_request_bytes={ROOM}",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Asks who its clients are, and closes who says nothing."""
    with Node(
        tmp_path_factory.mktemp("impatient"),
        "metrics.listen=127.0.0.1:0",
        "kafka.protocol=SASL_PLAINTEXT",
        "sasl.allow_without_tls=true",
        "network.connections_max_idle_ms=1000",
    ) as running:
        yield running


@pytest.fixture
def admin(node: Node) -> Iterator[Admin]:
    with Admin(node.address) as client:
        yield client


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    """The stack that the test closes at its end."""
    with ExitStack() as stack:
        yield stack


def metrics(node: Node) -> dict[str, ParsedFamily]:
    with urlopen(f"http://{node.process.fields['metrics']}/metrics?detail=full") as page:
        return parse(page.read().decode())


def figure(node: Node, name: str, **labels: str) -> float:
    return metrics(node)[name].value(**labels)


def settled(node: Node, count: int) -> int:
    """Waits until what tests before have closed is gone; the admin's connection is one of those that are left."""

    def open_now() -> int:
        return int(figure(node, "hutong_listener_connections", listener="PLAINTEXT"))

    until(lambda: open_now() == count, what=f"{count} connections are left", between_s=LOOK_S)
    return count


@contextmanager
def rises(node: Node, name: str, **labels: str) -> Iterator[None]:
    """Check that the work within makes a figure greater."""
    before = figure(node, name, **labels)
    yield
    until(lambda: figure(node, name, **labels) > before, what=f"{name} rises", between_s=LOOK_S)


def test_one_acceptor_per_listener(node: Node, admin: Admin, clients: ExitStack) -> None:
    """Far more connect at once than the kernel's queue and a turn of the loop take; each is accepted and served."""
    with rises(node, "kafka_server_socket_server_metrics_connection_creation_total", listener="PLAINTEXT"):
        many = [clients.enter_context(RawClient(node.address)) for _ in range(100)]
    for number, client in enumerate(many):
        client.ping(number)
    assert figure(node, "hutong_listener_connections", listener="PLAINTEXT") >= 100
    assert admin.setting("socket.listen.backlog.size").value == "512"
    assert (admin.setting("num.network.threads").value, admin.setting("num.network.threads").read_only) == ("1", True)
    assert 0 <= figure(node, "kafka_network_socketserver_networkprocessoravgidle_percent") <= 1
    assert figure(node, "hutong_acceptor_blocked_seconds_total", listener="PLAINTEXT") == 0


def test_nodelay_keepalive_and_socket_buffers(node: Node, clients: ExitStack) -> None:
    client = clients.enter_context(RawClient(node.address))
    client.ping()
    try:
        other_end = clients.enter_context(connection_of(node.pid, client.name))
    except PermissionError as error:
        pytest.skip(f"this system does not show the sockets of a child: {error}")
    assert other_end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert other_end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        assert other_end.getsockopt(socket.SOL_SOCKET, option) == 2 * BUFFER, "Linux doubles what it is asked for"


def test_one_request_in_flight_per_connection(strict: Node, clients: ExitStack) -> None:
    """Requests sent ahead are begun one after the other; a Fetch that waits for data holds up those behind it."""
    create_topic(strict.address, "waits", records=0)
    fetch = fetch_request("waits", 0, correlation_id=7, wait_ms=60_000)
    client, other = (clients.enter_context(RawClient(strict.address)) for _ in range(2))
    client.send(fetch + ping(8) + ping(9))
    until(lambda: figure(strict, "hutong_waits", lot="fetches"), what="the fetch waits", between_s=LOOK_S)
    before = figure(strict, "kafka_network_requestmetrics_requests_total", request="ApiVersions")
    other.ping()
    assert figure(strict, "kafka_network_requestmetrics_requests_total", request="ApiVersions") == before + 1
    assert not client.has_answer()
    assert figure(strict, "kafka_network_requestchannel_responsequeuesize") == 0
    other.call(produce_request("waits", record_batch([b"data"])))
    assert [int.from_bytes(client.receive()[4:8], "big") for _ in range(3)] == [7, 8, 9]


def test_answers_keep_the_order_of_requests(node: Node, clients: ExitStack) -> None:
    """With more than one in flight: what waits for the disk holds up what does not, on its own connection."""
    create_topic(node.address, "ordered", records=0)
    client = clients.enter_context(RawClient(node.address))
    produce = produce_request("ordered", record_batch([b"value"]))
    sent = b"".join(_numbered(produce, 2 * n) + ping(2 * n + 1) for n in range(100))
    client.send(sent)
    assert [int.from_bytes(client.receive()[4:8], "big") for _ in range(200)] == list(range(200))


def _numbered(frame: bytes, correlation_id: int) -> bytes:
    return frame[:8] + correlation_id.to_bytes(4, "big") + frame[12:]


def test_mute_states_a_client_that_does_not_read_is_not_read(node: Node, clients: ExitStack) -> None:
    """MUTED and RESPONSE_PENDING: unsent answers end the reading; reading them begins it anew, with nothing lost."""
    client = clients.enter_context(RawClient(node.address, kernel_bytes=8 * 1024))
    size = len(client.call(ping()))
    frames = b"".join(ping(number) for number in range(1000))
    client.socket.setblocking(False)
    sent = 0

    def is_blocked() -> bool:
        nonlocal sent
        try:
            sent += client.socket.send(frames[sent % len(frames) :])
        except BlockingIOError:
            return figure(node, "hutong_reading_pauses_total") > pauses
        return False

    pauses = figure(node, "hutong_reading_pauses_total")
    until(is_blocked, what="the node does not read")
    client.socket.setblocking(True)
    client.socket.settimeout(30)
    answers = bytearray()
    while len(answers) < sent // len(ping()) * size:
        answers += client.socket.recv(1 << 20)
    numbers = [int.from_bytes(answers[at + 4 : at + 8], "big") for at in range(0, len(answers), size)]
    assert numbers == [number % 1000 for number in range(len(numbers))]


def test_throttling_answers_at_once_and_mutes(node: Node, admin: Admin, clients: ExitStack) -> None:
    """THROTTLED, by producer_byte_rate: the answer tells the time at once, and later requests wait for it."""
    create_topic(node.address, "throttled", records=0)
    frame, layout = produce_request("throttled", record_batch([b"x" * 39_000])), ProduceReplyLayout.of("throttled")
    client, other = (clients.enter_context(RawClient(node.address)) for _ in range(2))
    admin.quota("client-id", CLIENT_ID.decode(), "producer_byte_rate", 40_000)
    with rises(node, "kafka_network_requestmetrics_requests_total", request="Produce"):
        replies = [client.call(frame) for _ in range(2)]
    assert [layout.error_code(reply) for reply in replies] == [0, 0]
    assert throttle_ms(replies[0]) == 0
    assert 0 < throttle_ms(replies[1]) <= 2000
    client.send(ping(5))
    other.ping()
    assert not client.has_answer(), "muted"
    assert client.receive()[4:8] == b"\0\0\0\5"
    time_ms = metrics(node)["kafka_network_requestmetrics_throttletimems"]
    assert time_ms.value(request="Produce", quantile="0.999") > 0


def throttle_ms(produce_reply: bytes) -> int:
    """It ends the reply, but for the tags."""
    return int.from_bytes(produce_reply[-5:-1], "big")


def test_bounded_queue(strict: Node, clients: ExitStack) -> None:
    """queued.max.requests: what is sent ahead beyond it keeps all from being read for a moment; nothing is lost."""
    client, other = (clients.enter_context(RawClient(strict.address)) for _ in range(2))
    with rises(strict, "hutong_request_queue_full_total"):
        client.send(b"".join(ping(number) for number in range(500)))
        other.ping()
        for number in range(500):
            assert client.receive()[4:8] == number.to_bytes(4, "big")
    assert figure(strict, "kafka_network_requestchannel_requestqueuesize") == 0
    admin = clients.enter_context(Admin(strict.address))
    assert admin.setting("queued.max.requests").value == "20"


def test_receive_memory_pool(strict: Node, clients: ExitStack) -> None:
    """queued.max.request.bytes: while a request that is not whole has all of it, others are not read; then they are."""
    large, small = (clients.enter_context(RawClient(strict.address)) for _ in range(2))
    frame = request(METADATA, 0, 3, topics=[{"name": "x" * 30_000}] * 8)
    with rises(strict, "hutong_request_memory_depleted_seconds_total"):
        large.send(frame[: ROOM + 50_000])
        until(
            lambda: figure(strict, "hutong_request_queue_bytes") >= ROOM, what="the pool is depleted", between_s=LOOK_S
        )
        small.ping(1)  # read before it is known, at most one
        small.send(ping(2))
        figure(strict, "hutong_request_queue_bytes")
        assert not small.has_answer()
        large.send(frame[ROOM + 50_000 :])
        assert large.receive()[4:8] == b"\0\0\0\3"
        assert small.receive()[4:8] == b"\0\0\0\2"
    assert figure(strict, "hutong_request_queue_bytes") == 0


def test_handler_pool(node: Node, admin: Admin) -> None:
    """num.io.threads are the threads for what blocks; handlers are on the loop, and its idleness stands for them."""
    assert admin.setting("num.io.threads").value == "4"
    assert 0 <= figure(node, "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent") <= 1


@pytest.mark.parametrize("size", [-1, LARGEST + 1, -(1 << 31), (1 << 31) - 1])
def test_a_size_below_zero_or_above_the_most_closes(node: Node, clients: ExitStack, size: int) -> None:
    client, other = (clients.enter_context(RawClient(node.address)) for _ in range(2))
    with rises(node, "hutong_connections_closed_total", reason="protocol_error"):
        client.send(ping(1) + struct.pack(">i", size) + b"whatever follows")
        assert client.receive()[4:8] == b"\0\0\0\1"
        assert client.is_closed_by_peer()
    other.ping()


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, METADATA, 99, 1, -1),
        struct.pack(">ihhih", 10, METADATA, 1, 1, -2),
        struct.pack(">ihhihi", 14, METADATA, 1, 1, -1, 1 << 30),
        struct.pack(">ih", 2, 18),
    ],
    ids=["no such API", "no such version", "bad header", "an array longer than the request", "no whole header"],
)
def test_a_parse_error_or_unsupported_api_closes(node: Node, clients: ExitStack, frame: bytes) -> None:
    client = clients.enter_context(RawClient(node.address))
    with rises(node, "hutong_connections_closed_total", reason="protocol_error"):
        client.send(frame)
        assert client.is_closed_by_peer()


def test_limit_per_address(node: Node, admin: Admin, clients: ExitStack) -> None:
    """max.connections.per.ip and its overrides: one too many is accepted and closed; other addresses do not feel it."""
    assert admin.set("max.connections.per.ip.overrides", "127.0.0.2:1,127.0.0.3:0") == 0
    first = clients.enter_context(RawClient(node.address, "127.0.0.2"))
    first.ping()
    with rises(node, "hutong_connections_refused_total", reason="too_many_of_one_address"):
        assert clients.enter_context(RawClient(node.address, "127.0.0.2")).is_closed_by_peer()
        assert clients.enter_context(RawClient(node.address, "127.0.0.3")).is_closed_by_peer()
    clients.enter_context(RawClient(node.address, "127.0.0.4")).ping()
    assert admin.set("max.connections.per.ip", "1") == 0
    clients.enter_context(RawClient(node.address, "127.0.0.5")).ping()
    assert clients.enter_context(RawClient(node.address, "127.0.0.5")).is_closed_by_peer()
    first.ping()
    told = admin.setting("max.connections.per.ip")
    assert (told.value, told.config_source, told.read_only) == ("1", 2, False), "DYNAMIC_BROKER_CONFIG"
    assert admin.set("max.connections.per.ip.overrides", "nobody:1") != 0


@pytest.mark.parametrize("name", ["max.connections", "listener.name.plaintext.max.connections"])
def test_limit_of_node_and_listener(node: Node, admin: Admin, clients: ExitStack, name: str) -> None:
    """One too many waits in the acceptor until another goes, and is served then."""
    first = clients.enter_context(RawClient(node.address))
    first.ping()
    open_now = settled(node, 2)
    with rises(node, "hutong_acceptor_blocked_seconds_total", listener="PLAINTEXT"):
        assert admin.set(name, str(open_now)) == 0
        waiting = clients.enter_context(RawClient(node.address))
        waiting.send(ping(1))
        first.ping()
        assert not waiting.has_answer()
        first.close()
        assert waiting.receive()[4:8] == b"\0\0\0\1"


def test_a_lower_limit_closes_the_longest_idle(node: Node, admin: Admin, clients: ExitStack) -> None:
    idle, busy = (clients.enter_context(RawClient(node.address)) for _ in range(2))
    idle.ping()
    busy.ping()
    open_now = settled(node, 3)
    with rises(node, "hutong_connections_closed_total", reason="excess"):
        busy.ping()
        assert admin.set("max.connections", str(open_now - 1)) == 0
        assert idle.is_closed_by_peer()
    busy.ping()


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
def test_creation_rate(node: Node, admin: Admin, clients: ExitStack, prefix: str) -> None:
    """Faster than it allows is waited for in the acceptor: a window's worth comes at once, the rest at the pace."""
    with rises(node, "hutong_acceptor_blocked_seconds_total", listener="PLAINTEXT"):
        assert admin.set(f"{prefix}max.connection.creation.rate", "20") == 0
        many = [clients.enter_context(RawClient(node.address)) for _ in range(30)]
        for client in many:
            client.ping()


def test_creation_rate_of_an_address(node: Node, admin: Admin, clients: ExitStack) -> None:
    """connection_creation_rate of the entity `ip` (KIP-612): who comes too fast is closed after the wait."""
    admin.quota("ip", "127.0.0.6", "connection_creation_rate", 1)
    with rises(node, "hutong_connections_refused_total", reason="too_fast_from_one_address"):
        many = [clients.enter_context(RawClient(node.address, "127.0.0.6")) for _ in range(6)]
        assert many[-1].is_closed_by_peer()
    clients.enter_context(RawClient(node.address, "127.0.0.7")).ping()
    many[0].ping()
    admin.quota("ip", "127.0.0.6", "connection_creation_rate", None)
    clients.enter_context(RawClient(node.address, "127.0.0.6")).ping()


def test_idle_close(impatient: Node, node: Node, admin: Admin, clients: ExitStack) -> None:
    with rises(impatient, "hutong_connections_closed_total", reason="idle"):
        assert clients.enter_context(RawClient(impatient.address)).is_closed_by_peer()
    told = admin.setting("connections.max.idle.ms")
    assert (told.value, told.config_source, told.read_only) == ("600000", 5, True), "DEFAULT_CONFIG"


def test_per_request_timings(node: Node, clients: ExitStack) -> None:
    """Kafka's seven times by API, and a line in the log about one that took long."""
    create_topic(node.address, "timed", records=0)
    client = clients.enter_context(RawClient(node.address))
    frame, layout = produce_request("timed", record_batch([b"value"])), ProduceReplyLayout.of("timed")

    def is_told() -> bool:
        assert layout.error_code(client.call(frame)) == 0
        return "slow request: Produce" in node.log_path.read_text()

    until(is_told, what="a slow Produce is told of")
    page = metrics(node)
    for name in ("requestqueue", "local", "remote", "throttle", "responsequeue", "responsesend", "total"):
        assert page[f"kafka_network_requestmetrics_{name}timems"].value(request="Produce", quantile="0.5") >= 0
    count = page["kafka_network_requestmetrics_requests_total"].value(request="Produce")
    assert page["hutong_request_seconds"].value(request="Produce") == count
    stages = page["hutong_request_stage_seconds_total"]
    assert stages.value(request="Produce", stage="remote") > stages.value(request="Produce", stage="local") > 0
    assert page["hutong_slow_requests_total"].value() > 0


def test_throttling_by_request_percentage(node: Node, admin: Admin, clients: ExitStack) -> None:
    """The time of the loop that a user's requests take, whatever they are."""
    admin.quota("user", "ANONYMOUS", "request_percentage", 0.01)
    client = clients.enter_context(Admin(node.address))

    def is_throttled() -> bool:
        return bool(client.call(METADATA, 5, topics=None).throttle_time)

    until(is_throttled, what="requests are throttled")


def test_throttling_by_consumer_byte_rate(node: Node, admin: Admin, clients: ExitStack) -> None:
    create_topic(node.address, "read", records=0)
    client, other = (clients.enter_context(RawClient(node.address)) for _ in range(2))
    for _ in range(3):
        client.call(produce_request("read", record_batch([b"x" * 20_000])))
    admin.quota("client-id", CLIENT_ID.decode(), "consumer_byte_rate", 10_000)
    until(lambda: throttle_ms_of_fetch(client.call(fetch_request("read", 0))), what="fetches are throttled")
    client.send(ping(2))
    other.ping()
    assert not client.has_answer()
    assert client.receive()[4:8] == b"\0\0\0\2"


def throttle_ms_of_fetch(reply: bytes) -> int:
    """It comes first."""
    return int.from_bytes(reply[8:12], "big")


def test_throttling_by_controller_mutation_rate(node: Node, admin: Admin, clients: ExitStack) -> None:
    """KIP-599: new versions are refused what goes over it, old ones are answered and wait."""
    admin.quota("client-id", "kio", "controller_mutation_rate", 5)

    def create(version: int, name: str) -> tuple[int, int]:
        client = clients.enter_context(Admin(node.address))  # each on its own: who was throttled is muted
        topic = {"name": name, "num_partitions": 6, "replication_factor": 1}
        answer = client.call(CREATE_TOPICS, version, topics=[topic], timeout=timedelta(seconds=30))
        return answer.topics[0].error_code.value, int(answer.throttle_time.total_seconds() * 1000)

    assert create(7, "mutation-1") == (0, 0), "a window's worth, and what was begun within it"
    code, wait_ms = create(7, "mutation-2")
    assert (code, 0 < wait_ms <= 1_000) == (THROTTLING_QUOTA_EXCEEDED, True)
    code, wait_ms = create(5, "mutation-3")
    assert (code, 0 < wait_ms <= 2_000) == (0, True)


def test_failed_authentication_is_answered_late_and_closed(impatient: Node, clients: ExitStack) -> None:
    """connection.failed.authentication.delay.ms; before authentication nothing but the handshake is answered."""
    client = clients.enter_context(KioClient(impatient.address))
    assert client.call(SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    with rises(impatient, "hutong_connections_closed_total", reason="handler"):
        answer = client.call(SASL_AUTHENTICATE, 1, auth_bytes=b"\0nobody\0nothing")
        assert answer.error_code == SASL_AUTHENTICATION_FAILED
        with pytest.raises(ConnectionError):
            client.call(SASL_HANDSHAKE, 1, mechanism="PLAIN")
    early = clients.enter_context(RawClient(impatient.address))
    early.send(struct.pack(">ihhihi", 14, METADATA, 1, 1, -1, -1))
    assert early.is_closed_by_peer()
