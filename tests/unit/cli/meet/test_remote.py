"""The exercise over remoting: every line is said and heard, and a neighbour that is wrong or gone is told of."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from hutong.cli.meet.driver import Stage, Told, limits_of
from hutong.cli.meet.lines import encode_line
from hutong.cli.meet.machine import L1, L2, LI, ZHANG, Side
from hutong.cli.meet.remote import SAY, dial, listen
from hutong.foundation.errors import ProtocolError
from hutong.remoting.answers import SUCCESS
from hutong.remoting.client import RemotingClient
from hutong.remoting.errors import RemotingConnectFailed, RemotingError, RemotingSendFailed
from hutong.wire.rocketmq.command import Command


def on_uvloop(scenario: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario)


async def zhang_and(
    zhang: Side, neighbour: Callable[[str, int], Awaitable[object]]
) -> tuple[Told | BaseException, object]:
    bound: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()

    async def come() -> object:
        return await neighbour(*(await bound))

    ours = listen("127.0.0.1", 0, zhang, ready=bound.set_result)
    told, other = await asyncio.gather(ours, come(), return_exceptions=True)
    return told, other


@pytest.mark.parametrize("meetings", [1, 3_000])
def test_every_line_is_said_and_heard(meetings: int) -> None:
    zhang, li = (Side(part, meetings, line_by_line=True) for part in (ZHANG, LI))

    async def scenario() -> None:
        told, _ = await zhang_and(zhang, lambda host, port: dial(host, port, li))
        assert isinstance(told, Told)
        assert told.seconds > 0
        assert zhang.is_done
        assert li.is_done

    on_uvloop(scenario())


async def neighbour_saying(host: str, port: int, body: bytes) -> Command | RemotingError:
    """A client that says one thing, answers nothing and leaves."""
    stage = Stage(limits_of())
    client = RemotingClient(stage.loop, clock=stage.clock, wheel=stage.wheel)
    try:
        return await client.invoke(f"{host}:{port}", Command(SAY, body=body))
    except RemotingError as error:
        return error
    finally:
        await client.close(0)
        stage.timers.close()


def test_a_wrong_line_ends_the_connection_and_is_named() -> None:
    async def scenario() -> None:
        told, other = await zhang_and(
            Side(ZHANG, 5), lambda host, port: neighbour_saying(host, port, encode_line(3, L2))
        )
        assert isinstance(told, ProtocolError)
        assert str(told) == f"serial 3 of {L2!r} where 0 is due"
        assert isinstance(other, RemotingSendFailed)

    on_uvloop(scenario())


def test_a_neighbour_who_leaves_is_told_of() -> None:
    async def scenario() -> None:
        zhang = Side(ZHANG, 5)
        told, other = await zhang_and(zhang, lambda host, port: neighbour_saying(host, port, encode_line(0, L2)))
        assert isinstance(told, ProtocolError | RemotingError)
        assert isinstance(other, Command)
        assert other.code == SUCCESS
        assert zhang.missing[L1] == 5

    on_uvloop(scenario())


def test_where_nobody_listens_there_is_no_conversation() -> None:
    async def scenario() -> None:
        with pytest.raises(RemotingConnectFailed):
            await dial("127.0.0.1", 1, Side(LI, 1))

    on_uvloop(scenario())
