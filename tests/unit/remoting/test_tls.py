"""TLS of a server in its three modes."""

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme
import uvloop

from hutong.foundation.clock import SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.tls.server_contexts import server_context
from hutong.remoting.channels.answers import SUCCESS
from hutong.remoting.client import RemotingClient
from hutong.remoting.errors import RemotingConnectFailed, RemotingError
from hutong.remoting.limits import RemotingLimits
from hutong.remoting.server import RemotingServer, TlsMode
from hutong.runtime.loops.timers import LoopTimers
from hutong.wire.rocketmq.command import Command

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("loop", LOOPS)
def test_modes(loop: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    context = server_context(tmp_path / "server.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def scenario() -> None:
        running, clock = asyncio.get_running_loop(), SystemClock()
        wheel = TimerWheel(clock.monotonic_ms())
        timers = LoopTimers(running, wheel, clock)
        limits = RemotingLimits(back_off_ms=1, back_off_ms_max=1)
        clients = {
            "plain": RemotingClient(running, clock=clock, wheel=wheel, limits=limits),
            "tls": RemotingClient(running, clock=clock, wheel=wheel, limits=limits, tls=trusting),
            "distrustful": RemotingClient(
                running, clock=clock, wheel=wheel, limits=limits, tls=ssl.create_default_context()
            ),
        }
        expected = {
            TlsMode.DISABLED: {"plain"},
            TlsMode.PERMISSIVE: {"plain", "tls"},
            TlsMode.ENFORCING: {"tls"},
        }
        for mode, served in expected.items():
            server = RemotingServer(running, clock=clock, wheel=wheel)
            server.register(10, lambda command, channel: Command(SUCCESS))
            host, port = await server.listen("127.0.0.1", 0, tls=context, mode=mode)
            for name, client in clients.items():
                if name in served:
                    assert (await client.invoke(f"{host}:{port}", Command(10))).code == SUCCESS
                else:
                    with pytest.raises(RemotingConnectFailed if client is not clients["plain"] else RemotingError):
                        await client.invoke(f"{host}:{port}", Command(10))
            await server.close(0)
        for client in clients.values():
            assert client.awaited == 0
            await client.close(0)
        timers.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


async def test_a_mode_without_a_context() -> None:
    clock = SystemClock()
    server = RemotingServer(asyncio.get_running_loop(), clock=clock, wheel=TimerWheel(clock.monotonic_ms()))
    with pytest.raises(ValueError, match="no context"):
        await server.listen("127.0.0.1", 0, mode=TlsMode.ENFORCING)
