"""A look at what answers at a server's address, after a session with it could not be had: for the error's sentence.

Strategy: `srvr` is one of ZooKeeper's four-letter words. Every ZooKeeper answers it, with its mode, with a refusal, or
with the news that it does not serve. What is no ZooKeeper closes the connection, says something else, or nothing.

Knows nothing of kazoo. It blocks, so it belongs on a thread; nothing takes longer than `PROBE_S_MAX` for each server.
"""

import socket
from typing import Final

from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress, ZooKeeperServer

PROBE_S_MAX: Final = 1.0
SERVERS_PROBED_MAX: Final = 5
_ANSWER_BYTES_MAX: Final = 4_096
_QUESTION: Final = b"srvr"


def serves(server: ZooKeeperServer) -> bool:
    """True once it is part of an ensemble that works."""
    try:
        return b"Mode: " in _ask(server)
    except OSError:
        return False


def look_at(address: ZooKeeperAddress, *, has_tls: bool) -> str:
    """The end of a sentence about why no session came about, of all servers."""
    found = [f"{server} {_finding(server, has_tls=has_tls)}" for server in address.servers[:SERVERS_PROBED_MAX]]
    return "; ".join(found)


def _finding(server: ZooKeeperServer, *, has_tls: bool) -> str:
    try:
        answer = _ask(server)
    except socket.gaierror:
        return "has no address: the name is unknown"
    except ConnectionRefusedError:
        return "refuses connections"
    except TimeoutError:
        return "does not answer: ZooKeeper is stopped or overloaded there, or another program has this port"
    except OSError as error:
        return f"cannot be reached ({error.strerror or error})"
    if b"Mode: " in answer or b"whitelist" in answer:
        wrong = "without TLS, which is asked of it" if has_tls else "but opens no session"
        return f"answers as ZooKeeper, {wrong}"
    if b"not currently serving" in answer:
        return "is a ZooKeeper that does not serve: its ensemble has no majority"
    if has_tls:
        return "did not agree on TLS: look at the certificates, and whether its port takes TLS"
    return "is no ZooKeeper, or wants TLS"


def _ask(server: ZooKeeperServer) -> bytes:
    with socket.create_connection((server.host, server.port), PROBE_S_MAX) as connection:
        connection.sendall(_QUESTION)
        answer = b""
        while len(answer) < _ANSWER_BYTES_MAX and (received := connection.recv(_ANSWER_BYTES_MAX)):
            answer += received
        return answer
