"""Where key sets may be, and what their endpoints may answer."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from tests.support.identity_provider import IdentityProvider, SigningKey, key_set

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import ProtocolError, UsageError
from hutong.security.oauth.key_sets import SET_BYTES_MAX, parse_key_set
from hutong.server.configuration.sections.security import OauthSettings
from hutong.server.listeners.oauth.sources import ReadKeys, source_of

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def source(place: str, authorities: Path | None = None, clock: Callable[[], int] | None = None) -> ReadKeys:
    return source_of(OauthSettings(jwks=place, jwks_ca=authorities), clock or SystemClock().monotonic_ms)


@contextmanager
def answering(answer: bytes, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A port where the first connection gets these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            try:
                line = line if tls is None else tls.wrap_socket(line, server_side=True)
                line.recv(10_000)
                line.sendall(answer)
            except OSError:
                pass  # the client has gone
            line.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(SigningKey("one", "ES256")))
    read = source(str(file))
    assert list(parse_key_set(read()).by_id) == ["one"]
    file.write_bytes(b" " * (SET_BYTES_MAX + 10))
    assert len(read()) == SET_BYTES_MAX + 1
    file.unlink()
    with pytest.raises(ProtocolError):
        read()


def test_an_endpoint() -> None:
    with IdentityProvider() as provider:
        read = source(provider.jwks_url + "?all=1")
        with pytest.raises(ProtocolError, match="404"):
            read()
        read = source(provider.jwks_url)
        assert set(parse_key_set(read()).by_id) == {"first", "second"}
        provider.is_broken = True
        with pytest.raises(ProtocolError, match="503"):
            read()


def test_an_endpoint_with_tls(tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    answer = HEAD + b"\r\n{}"
    with answering(answer, context) as port:
        assert source(f"https://localhost:{port}/keys", file)() == b"{}"
    with answering(answer, context) as port, pytest.raises(ProtocolError, match="certificate"):
        source(f"https://localhost:{port}/keys")()
    with answering(answer, context) as port, pytest.raises(ProtocolError, match="certificate"):
        source(f"https://127.0.0.1:{port}/keys", file)()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no HTTP\r\n\r\n",
        HEAD,
        HEAD + b"Content-Length: 10\r\n\r\n{}",
        HEAD + b"X: " + b"x" * 200_000,
        HEAD + b"\r\n" + b" " * (SET_BYTES_MAX + 1),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_answers_that_are_refused(answer: bytes) -> None:
    with answering(answer) as port, pytest.raises(ProtocolError):
        source(f"http://127.0.0.1:{port}/keys")()


def test_an_answer_has_one_deadline() -> None:
    times = iter(range(0, 1_000_000, 2_000))
    with answering(HEAD + b"\r\n{}") as port, pytest.raises(ProtocolError, match="in time"):
        source(f"http://127.0.0.1:{port}/keys", clock=lambda: next(times))()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ProtocolError, match="did not answer"):
        source(f"http://127.0.0.1:{port}/keys")()


@pytest.mark.parametrize(
    "place",
    [
        "",
        "/no/such/file",
        "ftp://provider.example/keys",
        "file:///etc/passwd",
        "http://provider.example/keys",
        "http://10.0.0.1/keys",
        "https://",
        "https://user:word@provider.example/keys",
        "https://provider.example/keys#first",
        "https://provider.example:port/keys",
        "https://provider.example:99999/keys",
        "https://[::1/keys",
        "https://provider.example/a b",
        "https://provider.example/ä",
    ],
)
def test_places_that_are_refused(place: str) -> None:
    with pytest.raises(UsageError):
        source(place)


def test_authorities_must_be_a_file() -> None:
    with pytest.raises(UsageError, match="jwks_ca"):
        source("https://provider.example/keys", Path("/no/such/file"))
