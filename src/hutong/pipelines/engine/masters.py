"""Reads a master's URL: Spark in this process's own Java, in a cluster, or behind Spark Connect.

Only forms with an address are parsed; other forms (`yarn`, `k8s://...`) pass through unchanged.
"""

import re
import socket
from collections.abc import Sequence
from contextlib import suppress

from hutong.foundation.errors import ExitCode, UsageError

CONNECT_SCHEME, STANDALONE_SCHEME = "sc://", "spark://"
CONNECT_PORT = 15002
ANSWER_S = 5.0
LOOPBACK = re.compile(r"localhost|127(?:\.\d+){3}|::1")


def is_local(master: str) -> bool:
    """Return True if Spark runs inside this machine's driver process."""
    return master.startswith("local") and not master.startswith("local-cluster")


def is_connect(master: str) -> bool:
    """Return True for a Spark Connect server: then this process needs no Java, and there is no SparkContext."""
    return master.startswith(CONNECT_SCHEME)


def addresses(master: str) -> Sequence[tuple[str, int]]:
    """Return the master's addresses, if the URL has any; several standalone masters stand by for each other."""
    for scheme in (STANDALONE_SCHEME, CONNECT_SCHEME):
        if master.startswith(scheme):
            hosts = master.removeprefix(scheme).partition("/")[0].split(",")
            return [_address(host, master, CONNECT_PORT if scheme == CONNECT_SCHEME else 7077) for host in hosts]
    return ()


def is_on_this_machine(master: str) -> bool:
    """Return True if the loopback interface suffices to reach it."""
    places = addresses(master)
    return is_local(master) or (bool(places) and all(LOOPBACK.fullmatch(host) for host, _ in places))


def check_answers(master: str) -> None:
    """Raise UsageError if no server listens there: Spark itself would retry for a minute or more."""
    places = addresses(master)
    for place in places:
        with suppress(OSError), socket.create_connection(place, ANSWER_S):
            return
    if places:
        tried = ", ".join(f"{host}:{port}" for host, port in places)
        kind = "Spark Connect server" if is_connect(master) else "Spark master"
        raise UsageError(f"no {kind} answers at {tried}: start one, or check --master", ExitCode.UNAVAILABLE)


def _address(text: str, master: str, port: int) -> tuple[str, int]:
    host, separator, port_text = text.rpartition(":")
    # Without a port, the scheme's default.
    if not separator:
        host, port_text = text, str(port)
    if not host or not port_text.isdecimal() or not 0 < int(port_text) < 2**16:
        raise UsageError(f"--master {master} is not of the form spark://HOST:PORT or sc://HOST:PORT")
    return host.strip("[]"), int(port_text)
