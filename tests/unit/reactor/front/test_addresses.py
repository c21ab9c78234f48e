"""Addresses as programs write them: what is read, and what an error proposes."""

import errno
import socket

import pytest

from hutong.reactor.front.addresses import bind_error, connect_error, join_address, split_address


@pytest.mark.parametrize("address", ["127.0.0.1:7000", "[::1]:7000", "localhost:65535"])
def test_an_address_is_split_and_joined(address: str) -> None:
    assert join_address(*split_address(address)) == address


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("7000", "is no address: write HOST:PORT"),
        ("localhost", "is no address"),
        ("localhost:http", "is no address"),
        ("localhost:²", "is no address"),
        (":7000", "has no host"),
        ("::1:7000", "write an IPv6 address in brackets"),
        ("localhost:0", "a port is a number from 1 to 65535"),
        ("localhost:65536", "has port 65536"),
    ],
)
def test_a_wrong_address_is_shown_with_the_right_form(address: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        split_address(address)


def test_a_server_may_leave_the_port_to_the_kernel() -> None:
    assert split_address("127.0.0.1:0", is_listening=True) == ("127.0.0.1", 0)
    with pytest.raises(ValueError, match=r"0\.0\.0\.0 for every interface"):
        split_address(":0", is_listening=True)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.EADDRINUSE, "in use by another program"),
        (errno.EADDRNOTAVAIL, "not on this machine"),
        (errno.EACCES, "a port from 1024 on"),
    ],
)
def test_an_error_of_binding_keeps_its_class_and_gives_the_remedy(number: int, text: str) -> None:
    error = bind_error(OSError(number, "short"), "10.0.0.1:80")
    assert text in str(error)
    assert "10.0.0.1:80" in str(error)
    assert type(error) is type(OSError(number, ""))


def test_other_errors_stay_as_they_are() -> None:
    error = OSError(errno.ENOBUFS, "no buffers")
    assert bind_error(error, "a:1") is error
    assert connect_error(error, "a:1") is error


def test_a_name_that_is_not_known_is_shown() -> None:
    unknown = socket.gaierror(socket.EAI_NONAME, "unknown")
    assert "nohost:1" in str(bind_error(unknown, "nohost:1"))
    assert isinstance(connect_error(unknown, "nohost:1"), socket.gaierror)
