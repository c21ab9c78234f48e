"""Addresses as programs write them, and errors that name the address and the remedy.

Knows nothing of servers and connections.
"""

import errno
import socket
from typing import Final

PORT_MAX: Final = 65_535


def split_address(address: str, *, is_listening: bool = False) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[IPV6]:PORT`; a server may ask for port 0, any free one.

    Raises ValueError, or TypeError for what is no text, which shows the address and the expected form.
    """
    # A port alone, or a pair as sockets take it.
    if not isinstance(address, str):
        raise TypeError(f"an address is text, HOST:PORT, such as '127.0.0.1:7000', not {address!r}")
    if "://" in address:
        from hutong.foundation.addresses import scheme_advice  # late: only to say what went wrong

        raise ValueError(f"{address!r} is no address: write it{scheme_advice(address)}")
    # From the right: an IPv6 address has colons of its own.
    host, colon, port = address.strip().rpartition(":")
    # str.isdigit alone is true for digits of other scripts.
    if not colon or not (port.isascii() and port.isdigit()):
        raise ValueError(f"{address!r} is no address: write HOST:PORT, such as 127.0.0.1:7000")
    # ":7000" would mean every interface to some programs, and localhost to others.
    if not host:
        hint = "127.0.0.1 for this machine alone, or 0.0.0.0 for every interface"
        raise ValueError(f"{address!r} has no host: write {hint if is_listening else 'the host that you connect to'}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    # Without brackets "::1:9092" could be an address without a port (RFC 3986, section 3.2.2).
    elif ":" in host:
        raise ValueError(f"{address!r} is ambiguous: write an IPv6 address in brackets, such as [::1]:7000")
    # Port 0 asks the kernel for a free port, which means something to a server alone.
    least = 0 if is_listening else 1
    if not least <= int(port) <= PORT_MAX:
        raise ValueError(f"{address!r} has port {int(port)}: a port is a number from {least} to {PORT_MAX}")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    """The reverse of `split_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind_error(error: OSError, address: str) -> OSError:
    """The same error of a server that cannot listen, in words that name the address and the remedy."""
    # Its numbers are those of getaddrinfo, which mean other things in the table below.
    if isinstance(error, socket.gaierror):
        return socket.gaierror(error.errno, f"no host of this name: {address}. Check the spelling, or write its number")
    texts = {
        errno.EADDRINUSE: f"{address} is in use by another program: stop it, or take another port (0 is any free one)",
        errno.EADDRNOTAVAIL: f"{address} is not on this machine: listen on 127.0.0.1, or 0.0.0.0 for every interface",
        errno.EACCES: f"{address} needs privileges: choose a port from 1024 on",
    }
    return _reworded(error, texts)


def connect_error(error: OSError, address: str) -> OSError:
    """The same error of a client that cannot connect, in words that name the address."""
    if isinstance(error, socket.gaierror):
        return socket.gaierror(error.errno, f"no host of this name: {address}. Check the spelling, or write its number")
    return _reworded(
        error, {errno.ECONNREFUSED: f"nothing listens at {address}: is the server running, and on this port?"}
    )


def _reworded(error: OSError, texts: dict[int, str]) -> OSError:
    text = texts.get(error.errno or 0)
    # OSError picks its subclass by the number, so `except ConnectionRefusedError` still works.
    return error if text is None else OSError(error.errno, text)
