"""Our remoting client asks RocketMQ's own name server for routes, in both forms of the header."""

import asyncio
import os
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Final

import msgspec
import pytest
import uvloop
from bench.targets import free_port

from hutong.foundation.clock import SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.remoting.client import RemotingClient
from hutong.runtime.loops.timers import LoopTimers
from hutong.wire.rocketmq.command import BINARY, JSON, Command

PEER: Final = os.environ.get("HUTONG_TEST_ROCKETMQ_PEER") or str(
    pathlib.Path(__file__).resolve().parents[3] / "shared" / "peers" / "rocketmq" / "rocketmq"
)
READY: Final = "ready "
ROUTE: Final = 105
NO_TOPIC: Final = 17
NOT_SUPPORTED: Final = 3
PUT_VALUE: Final = 100
GET_VALUE: Final = 101


@pytest.fixture(scope="module")
def name_server() -> Iterator[str]:
    """The address of a name server with one broker, which ends when its input does."""
    if not pathlib.Path(PEER).exists():
        pytest.skip("the script that starts RocketMQ is not there")
    words = [PEER, "start", "--port", str(free_port()), "--broker-port", str(free_port())]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith(READY):
            _, why = process.communicate()
            pytest.skip(f"RocketMQ does not start here: {line}{why[-300:]}")
        try:
            yield line.split()[1]
        finally:
            process.terminate()


@pytest.mark.timeout(240)  # the first time it fetches RocketMQ
@pytest.mark.parametrize("form", [JSON, BINARY], ids=["json", "binary"])
def test_routes_and_values(name_server: str, form: int) -> None:
    async def scenario() -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        wheel = TimerWheel(clock.monotonic_ms())
        timers = LoopTimers(loop, wheel, clock)
        client = RemotingClient(loop, clock=clock, wheel=wheel)
        await ask_everything(client, name_server, form)
        await client.close()
        timers.close()

    uvloop.run(scenario())


async def ask_everything(client: RemotingClient, address: str, form: int) -> None:
    async def ask(code: int, **fields: str) -> Command:
        return await client.invoke(address, Command(code, fields=fields, serialization=form), 20_000)

    found = await ask(ROUTE, topic="TBW102")
    route = msgspec.json.decode(found.body)
    assert (found.code, [broker["brokerName"] for broker in route["brokerDatas"]]) == (0, ["broker-a"])
    missing = await ask(ROUTE, topic="nowhere")
    assert missing.code == NO_TOPIC
    assert "nowhere" in (missing.remark or "")
    assert (await ask(PUT_VALUE, namespace="ours", key="greeting", value="grüß dich")).code == 0
    assert (await ask(GET_VALUE, namespace="ours", key="greeting")).ext() == {"value": "grüß dich"}
    assert (await ask(9_999)).code == NOT_SUPPORTED
