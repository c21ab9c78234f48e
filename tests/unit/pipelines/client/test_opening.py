"""Connections are opened to brokers of one thread each, which say what the test tells them."""

import pickle
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest
from bench.certificates import Certificates, Identity, make_certificates

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import BrokerAddress, ClusterSettings
from hutong.pipelines.client.opening import connect
from hutong.pipelines.client.security import SaslLogin, Security, Tls
from hutong.pipelines.errors import AccessDenied, Unavailable
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeResponse
from hutong.wire.kafka.apis.k18_api_versions import ApiVersion, ApiVersionsResponse
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from hutong.wire.kafka.codec.codecs import Message, decode_request
from hutong.wire.kafka.headers import decode_request_header, encode_response_frame

TIMEOUT_MS = 20_000
HOST = "127.0.0.2"  # the certificates are for 127.0.0.1
LOGIN = SaslLogin("PLAIN", "ann", "secret")
Serve = Callable[[socket.socket], None]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def serve() -> Iterator[Callable[[Serve], int]]:
    """Serves one connection in a thread; returns the port."""
    threads: list[threading.Thread] = []
    listener = socket.create_server((HOST, 0))

    def begin(handle: Serve) -> int:
        def accept() -> None:
            end, _ = listener.accept()
            end.settimeout(TIMEOUT_MS / 1000)
            with end:
                handle(end)

        threads.append(threading.Thread(target=accept))
        threads[-1].start()
        port: int = listener.getsockname()[1]
        return port

    yield begin
    for thread in threads:
        thread.join(TIMEOUT_MS / 1000)
    listener.close()


def settings(tls: Tls | None = None, login: SaslLogin | None = None) -> ClusterSettings:
    return ClusterSettings((BrokerAddress("unused", 1),), False, TIMEOUT_MS, TIMEOUT_MS, security=Security(tls, login))


def shaken(identity: Identity) -> Serve:
    """A broker that begins TLS and never gets further."""

    def handle(end: socket.socket) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(identity.both)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(end, server_side=True)

    return handle


def answers(*messages: Message) -> Serve:
    """A broker that answers ApiVersions, then each request with the next of `messages`."""
    keys = [ApiVersion(17, 0, 1), ApiVersion(36, 0, 2)]

    def handle(end: socket.socket) -> None:
        for message in (ApiVersionsResponse(0, keys), *messages):
            header, _ = received(end)
            end.sendall(b"".join(encode_response_frame(*header, message)))

    return handle


def received(end: socket.socket) -> tuple[tuple[int, int, int], bytes]:
    size = int.from_bytes(end.recv(4, socket.MSG_WAITALL), "big")
    frame = end.recv(size, socket.MSG_WAITALL)
    header, _ = decode_request_header(frame)
    return (header.api_key, header.api_version, header.correlation_id), frame


def test_nobody_at_the_address_is_unavailable() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(Unavailable, match=f"no broker answers at 127.0.0.1:{port}"):
        connect("127.0.0.1", port, settings())


def test_settings_travel_whole() -> None:
    told = settings(Tls(key_pem="k"), LOGIN)
    assert pickle.loads(pickle.dumps(told)) == told


def test_a_certificate_for_another_name_is_not_believed(
    certificates: Certificates, serve: Callable[[Serve], int]
) -> None:
    port = serve(shaken(certificates.server))
    tls = Tls(str(certificates.authority))
    with pytest.raises(AccessDenied, match=r"127.0.0.2:\d+ is not trusted: its certificate is for another name"):
        connect(HOST, port, settings(tls))


def test_a_name_need_not_be_checked(certificates: Certificates, serve: Callable[[Serve], int]) -> None:
    def handle(end: socket.socket) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates.server.both)
        with context.wrap_socket(end, server_side=True) as secured:
            header, _ = received_over_tls(secured)
            secured.sendall(b"".join(encode_response_frame(*header, ApiVersionsResponse(0, []))))

    tls = Tls(str(certificates.authority), checks_name=False)
    connect(HOST, serve(handle), settings(tls)).close()


def received_over_tls(end: ssl.SSLSocket) -> tuple[tuple[int, int, int], bytes]:
    content = end.recv(4096)
    while len(content) < 4 + int.from_bytes(content[:4], "big"):
        content += end.recv(4096)
    header, _ = decode_request_header(content[4:])
    return (header.api_key, header.api_version, header.correlation_id), content


def test_a_port_without_tls_is_recognised(certificates: Certificates, serve: Callable[[Serve], int]) -> None:
    port = serve(lambda end: end.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(AccessDenied, match="does not speak TLS"):
        connect(HOST, port, settings(Tls(str(certificates.authority))))


def test_a_port_with_tls_is_recognised(serve: Callable[[Serve], int]) -> None:
    def handle(end: socket.socket) -> None:
        received(end)
        end.sendall(b"\x15\x03\x03\x00\x02\x02\x46")

    with pytest.raises(AccessDenied, match="speaks TLS alone"):
        connect(HOST, serve(handle), settings())


def test_a_broker_that_closes_is_told_with_a_hint(serve: Callable[[Serve], int]) -> None:
    def handle(end: socket.socket) -> None:
        received(end)

    with pytest.raises(Unavailable, match="if that port wants TLS"):
        connect(HOST, serve(handle), settings())


def test_nobody_talks_of_passwords_before_the_broker_is_trusted(
    certificates: Certificates, serve: Callable[[Serve], int]
) -> None:
    port = serve(shaken(certificates.server))
    with pytest.raises(AccessDenied, match=r"signed by no authority in kafka.ssl.truststore.certificates"):
        connect(HOST, port, settings(Tls(trusted_pem=certificates.strange_authority.read_text()), LOGIN))


def test_plain_sends_name_and_password_once(serve: Callable[[Serve], int]) -> None:
    seen: list[SaslAuthenticateRequest] = []

    def handle(end: socket.socket) -> None:
        for message in (
            ApiVersionsResponse(0, [ApiVersion(17, 0, 1), ApiVersion(36, 0, 1)]),
            SaslHandshakeResponse(0, ["PLAIN"]),
            SaslAuthenticateResponse(0, None, b"", 60_000),
        ):
            header, frame = received(end)
            if header[0] == 36:
                _, body = decode_request_header(frame)
                seen.append(decode_request(36, header[1], frame, body))
            end.sendall(b"".join(encode_response_frame(*header, message)))

    connection = connect(HOST, serve(handle), settings(login=LOGIN))
    assert [bytes(request.auth_bytes) for request in seen] == [b"\0ann\0secret"]
    assert connection.is_idle
    connection.close()


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([SaslHandshakeResponse(33, ["GSSAPI"])], r"does not take PLAIN: .* \(GSSAPI\)"),
        ([SaslHandshakeResponse(34, [])], "asks for no password on that port"),
        ([SaslHandshakeResponse(0, []), SaslAuthenticateResponse(58, "x" * 900)], r"user 'ann' by PLAIN.*\(x{200}\)$"),
        ([SaslHandshakeResponse(0, []), SaslAuthenticateResponse(58, None)], r"\(error 58\)"),
    ],
)
def test_who_is_not_let_in_is_told_why(serve: Callable[[Serve], int], told: list[Message], why: str) -> None:
    with pytest.raises(AccessDenied, match=why) as refused:
        connect(HOST, serve(answers(*told)), settings(login=LOGIN))
    assert "secret" not in str(refused.value)


def test_an_identity_that_cannot_be_used_is_told(certificates: Certificates, serve: Callable[[Serve], int]) -> None:
    port = serve(lambda end: None)
    tls = Tls(certificate_pem="none", key_pem="secret")
    with pytest.raises(UsageError, match=r"our certificate and key in .* cannot be used") as refused:
        connect(HOST, port, settings(tls))
    assert "secret" not in str(refused.value)
