"""An administrator of groups without members: commits offsets, deletes them or the whole group, changes a setting.

Strategy: each step is one change, and then a look at what it left. Nobody else changes these groups. After a change
without a clear answer the client goes on with a fresh group: the node may carry the change out at any later time.
"""

from collections.abc import Callable
from typing import Any, Final

from hutong.testing.simulation.admin_history import KeptChanged, KeptSeen
from hutong.testing.simulation.clients.client import ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.history_text import Place
from hutong.testing.simulation.plan.clients import PlannedKeeper
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from hutong.wire.kafka.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.kafka.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from hutong.wire.kafka.error_codes import ErrorCode

COMMITS: Final = "commits"
FORGETS: Final = "forgets"
DELETES_GROUP: Final = "deletes the group with"
SETS: Final = "sets"
NO_OFFSET: Final = -1
DEFAULT_LIMIT: Final = 5
UNCLEAR: Final = -1
_CERTAIN: Final = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
_GROUP: Final = 32
_SET: Final = 0
_UNSET: Final = 1
_SETTING: Final = "share.delivery.count.limit"


class SimKeeper(KafkaClient):
    """Changes one group after the other."""

    def __init__(self, context: ClientContext, plan: PlannedKeeper) -> None:
        super().__init__(context)
        self._pause_ms = plan.pause_ms
        self._place: Place = (plan.topic, 0)
        self._offset = 0
        self._is_clear = False
        self.groups: list[tuple[str, Place]] = []

    async def run(self) -> None:
        while not self.is_stopping:
            if not self._is_clear:
                self.groups.append((f"{self.name}.{len(self.groups) + 1}", self._place))
                self._is_clear = True
            change = self.random.choice((self._commit, self._commit, self._set, self._forget, self._delete))
            await change(self.groups[-1][0])
            if self._is_clear:
                await look_at_group(self, *self.groups[-1])
            await self.rest(self._pause_ms)

    async def _commit(self, group: str) -> None:
        self._offset += 1
        parts = [OffsetCommitRequestPartition(self._place[1], self._offset, committed_metadata="")]
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(self._place[0], partitions=parts)])
        await self._change(COMMITS, self._offset, request, 8, lambda answer: answer.topics[0].partitions[0].error_code)

    async def _forget(self, group: str) -> None:
        parts = [OffsetDeleteRequestPartition(self._place[1])]
        request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(self._place[0], parts)])
        await self._change(FORGETS, NO_OFFSET, request, 0, lambda answer: answer.error_code or _first_error(answer))

    async def _delete(self, group: str) -> None:
        request = DeleteGroupsRequest([group])
        await self._change(DELETES_GROUP, NO_OFFSET, request, 2, lambda answer: answer.results[0].error_code)

    async def _set(self, group: str) -> None:
        limit = self.random.choice((2, 7, DEFAULT_LIMIT))
        # Without a value of its own it has the default again.
        config = AlterableConfig(_SETTING, _UNSET if limit == DEFAULT_LIMIT else _SET, str(limit))
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP, group, [config])])
        await self._change(SETS, limit, request, 1, lambda answer: answer.responses[0].error_code)

    async def _change(self, kind: str, value: int, request: Any, version: int, error_of: Callable[[Any], int]) -> None:
        try:
            error = error_of(await self.ask(request, version))
        except Disconnected:
            error = UNCLEAR
        if error not in _CERTAIN:
            self._is_clear, error = False, UNCLEAR
            await self.pause()
        else:
            self.went_well()
        self.history.add(KeptChanged(self.now_us, self.name, self.groups[-1][0], kind, value, error))


async def look_at_group(client: KafkaClient, group: str, place: Place) -> bool:
    """Add what the node says of a group's offset and setting; returns True if it did."""
    asked = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(place[0], partition_indexes=[place[1]])])
    about = DescribeConfigsRequest([DescribeConfigsResource(_GROUP, group, [_SETTING])])
    try:
        offsets = (await client.ask(OffsetFetchRequest(groups=[asked]), 9)).groups[0]
        settings = (await client.ask_controller(about, 4)).results[0]
    except Disconnected:
        await client.pause()
        return False
    if offsets.error_code or settings.error_code:
        await client.pause()
        return False
    offset = offsets.topics[0].partitions[0].committed_offset
    client.history.add(KeptSeen(client.now_us, client.name, group, offset, int(settings.configs[0].value)))
    return True


def _first_error(answer: Any) -> int:
    error: int = answer.topics[0].partitions[0].error_code if answer.topics else ErrorCode.NONE
    return error
