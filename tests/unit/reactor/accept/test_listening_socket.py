"""One listening socket: who would take the last descriptors of the process is closed."""

import asyncio
import resource
import socket

import pytest
from tests.support.waiting import turning_until as until

from hutong.reactor.accept.listening_socket import ListeningSocket, descriptors_for_connections


@pytest.mark.parametrize(("descriptors_max", "is_taken"), [(0, False), (None, True)])
def test_a_connection_that_would_take_what_is_kept_for_files_is_closed(
    descriptors_max: int | None, is_taken: bool
) -> None:
    async def scenario() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        taken: list[socket.socket] = []
        failures: list[OSError] = []

        def take(connection: socket.socket, _address: str) -> None:
            taken.append(connection)

        loop = asyncio.get_running_loop()
        listening = ListeningSocket(loop, listener, lambda: True, take, failures.append, descriptors_max)
        listening.start(16)
        with socket.create_connection(listener.getsockname(), 10) as client:
            await until(lambda: bool(taken or failures))
            assert bool(taken) is is_taken
            for connection in taken:
                connection.close()
            assert client.recv(1) == b"", "closed, by the test or by the socket itself"
        listening.close()

    asyncio.run(scenario())


def test_some_descriptors_are_kept_whatever_the_limit() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft - 128 <= descriptors_for_connections() < soft
