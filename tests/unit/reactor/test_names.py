"""Look-ups of names: what is found, and that one that hangs delays neither another one nor the end."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from hutong.reactor.names import NameLookups

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
HANGING = "hangs.test"


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The machine's resolver, but for one name, which it looks for until the event is set, in vain."""
    is_over, real = threading.Event(), socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **options: Any) -> Any:
        if host == HANGING:
            is_over.wait()
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield is_over
    is_over.set()


@pytest.mark.parametrize("loop", LOOPS)
def test_addresses_are_found_and_numeric_ones_are_their_own(loop: str) -> None:
    async def scenario() -> None:
        names = NameLookups(asyncio.get_running_loop())
        assert await names.addresses_of("127.0.0.1", 1) == ["127.0.0.1"]
        assert await names.addresses_of("::1", 1) == ["::1"]
        assert "127.0.0.1" in await names.addresses_of("localhost", 1)
        for wrong in ("x" * 64 + ".test", "a..b"):
            with pytest.raises(socket.gaierror, match="is no host name"):
                await names.addresses_of(wrong, 1)
        names.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_look_up_that_hangs_delays_neither_others_nor_the_end_and_leaves_no_line_in_the_log(
    loop: str, resolver: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        names = NameLookups(asyncio.get_running_loop())
        hanging = asyncio.ensure_future(names.addresses_of(HANGING, 1))
        assert "127.0.0.1" in await names.addresses_of("localhost", 1)
        assert not hanging.done()
        hanging.cancel()
        with suppress(asyncio.CancelledError):
            await hanging
        names.close()

    with caplog.at_level(logging.DEBUG, "asyncio"), asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())  # and the loop is closed, while the look-up goes on
    assert not resolver.is_set()
    resolver.set()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
