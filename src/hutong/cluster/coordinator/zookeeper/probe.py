"""A look at what answers at a server's address, after a session with it could not be had: for the error's sentence.

Strategy: `srvr` is one of ZooKeeper's four-letter words. Every ZooKeeper answers it, with its mode, with a refusal, or
with the news that it does not serve. What is no ZooKeeper closes the connection, says something else, or nothing.

Knows nothing of kazoo. It blocks, so it belongs on a thread; no step takes longer than `PROBE_S_MAX` for each server.
"""

import socket
import ssl
from functools import partial
from typing import Final

from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress, ZooKeeperServer
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperTls
from hutong.foundation.errors import ExitCode, Expired, UsageError
from hutong.runtime.threads.bounded import call_within

PROBE_S_MAX: Final = 1.0
SERVERS_PROBED_MAX: Final = 5
_ANSWER_BYTES_MAX: Final = 4_096
_QUESTION: Final = b"srvr"


def make_context(tls: ZooKeeperTls | None) -> ssl.SSLContext | None:
    """Raises UsageError for files that cannot be used: kazoo would find out at each attempt to connect."""
    if tls is None:
        return None
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:
        files = ", ".join(str(path) for path in (tls.ca, tls.certificate, tls.key) if path is not None)
        reason = error.strerror or error
        raise UsageError(f"The TLS files for ZooKeeper ({files}) cannot be used: {reason}.", ExitCode.CONFIG) from None
    return context


def serves(server: ZooKeeperServer, context: ssl.SSLContext | None = None) -> bool:
    """True once it is part of an ensemble that works."""
    try:
        return b"Mode: " in _ask(server, context)
    except (OSError, Expired):
        return False


def look_at(address: ZooKeeperAddress, context: ssl.SSLContext | None) -> str:
    """The end of a sentence about why no session came about, of all servers."""
    found = [f"{server} {_finding(server, context)}" for server in address.servers[:SERVERS_PROBED_MAX]]
    return "; ".join(found)


def _finding(server: ZooKeeperServer, context: ssl.SSLContext | None) -> str:
    try:
        answer = _ask(server, context)
    except socket.gaierror:
        return "has no address: the name is unknown"
    except Expired:
        return "has no address: no name server answers"
    except ConnectionRefusedError:
        return "refuses connections"
    except TimeoutError:
        without = "" if context else "wants TLS, "
        return f"does not answer: it {without}is stopped or overloaded, or is no ZooKeeper"
    except ssl.SSLCertVerificationError as error:
        return f"has a certificate that is refused: {error.verify_message}"
    except OSError as error:
        reason = error.strerror or error
        return f"does not agree on TLS: {reason}" if context else f"cannot be reached: {reason}"
    if b"Mode: " in answer or b"whitelist" in answer:
        return "answers as ZooKeeper, and opens no session"
    if b"not currently serving" in answer:
        return "is a ZooKeeper that does not serve: its ensemble has no majority"
    return "is no ZooKeeper"


def _ask(server: ZooKeeperServer, context: ssl.SSLContext | None) -> bytes:
    # A look-up has no timeout. What was found once is found again at once, by the connection.
    call_within(round(PROBE_S_MAX * 1_000), partial(socket.getaddrinfo, server.host, server.port), "zookeeper-name")
    with socket.create_connection((server.host, server.port), PROBE_S_MAX) as plain:
        if context is None:
            return _answer_of(plain)
        with context.wrap_socket(plain, server_hostname=server.host) as secured:
            return _answer_of(secured)


def _answer_of(connection: socket.socket) -> bytes:
    connection.sendall(_QUESTION)
    answer = b""
    while len(answer) < _ANSWER_BYTES_MAX and (received := connection.recv(_ANSWER_BYTES_MAX)):
        answer += received
    return answer
