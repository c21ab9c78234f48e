"""High availability of a node inside a program: its arguments, and that it is composed."""

from typing import Any

import pytest

import hutong
from hutong.foundation.errors import UsageError
from hutong.runtime.runtime import Runtime


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"ha_group": "shop"}, "ha_group is for a node of a cluster"),
        ({"ha_quorum": 2}, "ha_quorum is for a node with high availability"),
        ({"cluster": "zk://127.0.0.1:1", "ha_quorum": 2}, "name its group as ha_group"),
        ({"cluster": "zk://127.0.0.1:1", "ha_group": ""}, "a name has 1 to 100 characters"),
        ({"cluster": "zk://127.0.0.1:1", "ha_group": "g" * 101}, "a name has 1 to 100 characters"),
        ({"cluster": "zk://127.0.0.1:1", "ha_group": "shop", "ha_quorum": 0}, "at least the node itself"),
    ],
)
async def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        hutong.Node(**arguments)


async def test_a_verticle_finds_the_bus_of_its_node() -> None:
    async with hutong.Node() as node:
        assert node.runtime.provided(hutong.EventBus) is node.bus


async def test_what_nobody_provides_is_refused() -> None:
    async with Runtime(blocked_limits=None) as runtime:
        with pytest.raises(UsageError, match="provides no EventBus"):
            runtime.provided(hutong.EventBus)
