"""The ports that `hutong cluster dev` chooses are its nodes' from then on, though none of them listens yet."""

import socket
from contextlib import AsyncExitStack

import pytest

from hutong.cli.cluster.supervisor import reserved_port
from hutong.reactor.accept.reserved_port import LOOPBACK


def is_free(port: int) -> bool:
    """True where a program that asks for this very port, or for any, may get it."""
    with socket.socket() as other:
        try:
            other.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


async def test_nobody_else_gets_a_port_before_its_node_listens_and_between_two_lives() -> None:
    async with AsyncExitStack() as exit_stack:
        port = reserved_port(exit_stack)
        assert not is_free(port)
        for _ in range(2):
            with socket.create_server((LOOPBACK, port)), socket.create_connection((LOOPBACK, port)):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((LOOPBACK, port))
            assert not is_free(port)


async def test_all_ports_of_a_cluster_differ() -> None:
    async with AsyncExitStack() as exit_stack:
        ports = [reserved_port(exit_stack) for _ in range(30)]
        assert len(set(ports)) == len(ports)
