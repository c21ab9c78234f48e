"""Whose share a request counts against, and floods of one client: others still get what they ask for."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.broker.wire_node import WireClient, client_of, running_node

from hutong.broker.handling.holders import holder_name
from hutong.security.principals import ANONYMOUS, Principal
from hutong.server.configuration.sections.groups import NodeGroupSettings
from hutong.server.configuration.settings import Settings
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hutong.wire.kafka.error_codes import ErrorCode

SESSION_MS = 30 * 60_000


@pytest.mark.parametrize(
    ("principal", "address", "holder"),
    [
        (Principal("User", "ann"), "10.0.0.1", "User:ann"),
        (ANONYMOUS, "10.0.0.1", "10.0.0.1"),
        (ANONYMOUS, "::ffff:10.0.0.1", "10.0.0.1"),
        (ANONYMOUS, "2001:db8:0:1::7", "2001:db8:0:1::/64"),
        (ANONYMOUS, "2001:db8:0:1:ffff::8", "2001:db8:0:1::/64"),
        (ANONYMOUS, "fe80::1%eth0", "fe80::/64"),
    ],
)
def test_a_client_is_its_principal_or_its_address(principal: Principal, address: str, holder: str) -> None:
    assert holder_name(principal, address) == holder


def join(group_id: str, member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id, SESSION_MS, 60_000, member_id, None, "consumer", [JoinGroupRequestProtocol("range", b"")], ""
    )


async def joined(client: WireClient, group_id: str) -> int:
    offered = await client.ask(join(group_id), 9)
    if offered.error_code != ErrorCode.MEMBER_ID_REQUIRED:
        return int(offered.error_code)
    return int((await client.ask(join(group_id, offered.member_id), 9)).error_code)


def test_a_client_that_asks_for_ids_and_never_uses_them_stops_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as flood, client_of(address) as other:
            for number in range(10_050):
                flood.send(join(f"flood-{number}"), 9)
                if number % 50 == 49:
                    await flood.writer.drain()
                    for _ in range(50):
                        assert (await flood.receive(11, 9)).error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert await joined(other, "new") == 0, "even from the same address"
            assert await joined(flood, "own") == 0

    asyncio.run(scenario())


def test_members_of_an_older_protocol_of_one_address_leave_groups_to_others(tmp_path: Path) -> None:
    settings = Settings(group=NodeGroupSettings(max_groups=40, initial_rebalance_delay_ms=0))

    async def scenario() -> None:
        async with running_node(tmp_path, settings) as address, client_of(address) as flood:
            answers = [await flood.ask(join(f"flood-{number}"), 3) for number in range(50)]
            codes = [answer.error_code for answer in answers]
            assert codes == [0] * 30 + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 20
            async with client_of(address, "127.0.0.2") as other:
                assert await joined(other, "new") == 0
            async with client_of(address) as again:
                assert await joined(again, "flood-again") == ErrorCode.COORDINATOR_NOT_AVAILABLE

    asyncio.run(scenario())
