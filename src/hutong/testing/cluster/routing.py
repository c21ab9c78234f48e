"""A Kafka client of a whole cluster without sockets: each request goes to the node that can answer it.

    produce, fetch, list offsets    the leaders of their partitions; the answers of several are put together
    groups and their offsets        the coordinator; a list of groups is that of all nodes
    everything else                 the controller, or any node while there is none

Strategy: who leads is asked each time, of the controller, whose metadata are the newest. Where a node answers that it
does not lead (any more), or dies meanwhile, the request is made again, until PATIENCE_MS are over. Nodes that are cut
off are not asked: helpers see what the majority sees. A produce is not made again where its node died, since it may
have been carried out.

Knows nothing of threads.
"""

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import OwnerGone
from hutong.testing.observe.observer import Asking
from hutong.testing.values import WaitFailed
from hutong.wire.kafka.apis.k00_produce import ProduceRequest
from hutong.wire.kafka.apis.k01_fetch import FetchRequest
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsRequest
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from hutong.wire.kafka.apis.k09_offset_fetch import OffsetFetchRequest
from hutong.wire.kafka.apis.k10_find_coordinator import FindCoordinatorRequest
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest
from hutong.wire.kafka.apis.k16_list_groups import ListGroupsRequest
from hutong.wire.kafka.error_codes import ErrorCode

ASK_AGAIN_S: Final = 0.01
PATIENCE_MS: Final = 5_000
FETCH_WAIT_MS_MAX: Final = 10  # leaders may change, and the records may come from another one
MOVED: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
_METADATA_VERSION: Final = 9
_FIND_VERSION: Final = 3


class RoutedLoopback:
    """`reached` has a client of each node that runs and is not cut off, by number."""

    def __init__(self, reached: Callable[[], Mapping[int, Asking]], clock: Clock) -> None:
        self._reached = reached
        self._clock = clock

    async def ask(self, request: Any, version: int) -> Any:
        """The decoded response. Raises WaitFailed where no node answers in time, and OwnerGone, ProtocolError."""
        until_ms = self._clock.monotonic_ms() + PATIENCE_MS
        while True:
            is_over = self._clock.monotonic_ms() >= until_ms
            try:
                answer = await self._ask_once(request, version)
            except OwnerGone:
                if is_over or isinstance(request, ProduceRequest):
                    raise
                answer = None
            if answer is not None and (is_over or not MOVED.intersection(codes_of(answer))):
                return answer
            if is_over:
                raise WaitFailed(f"no node has answered {type(request).__name__} within {PATIENCE_MS / 1000:g} s")
            await asyncio.sleep(ASK_AGAIN_S)

    async def metadata(self, topics: Sequence[str] | None = None) -> MetadataResponse | None:
        """The metadata as the controller knows it, or any node while there is none; None while no node runs."""
        nodes = self._reached()
        if not nodes:
            return None
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(names, allow_auto_topic_creation=False)
        # Another node may not have applied yet what a test has just made.
        first: MetadataResponse = await nodes[min(nodes)].ask(request, _METADATA_VERSION)
        controller = nodes.get(first.controller_id)
        if controller is None or first.controller_id == min(nodes):
            return first
        answer: MetadataResponse = await controller.ask(request, _METADATA_VERSION)
        return answer

    async def _ask_once(self, request: Any, version: int) -> Any:
        """The answer, or None where nobody can give it now."""
        if isinstance(request, ProduceRequest):
            return await self._ask_leaders(request, version, "topic_data", "partition_data")
        if isinstance(request, FetchRequest):
            return await self._ask_leaders(request, version, "topics", "partitions")
        if isinstance(request, ListOffsetsRequest):
            return await self._ask_leaders(request, version, "topics", "partitions")
        if isinstance(request, ListGroupsRequest):
            answers = await asyncio.gather(*(node.ask(request, version) for node in self._reached().values()))
            return _together(answers, "groups", None)
        if isinstance(request, DescribeGroupsRequest | OffsetFetchRequest):
            return await self._ask_coordinator(request, version)
        return await self._ask(await self._controller(), request, version)

    async def _ask(self, node: int, request: Any, version: int) -> Any:
        client = self._reached().get(node)
        return None if client is None else await client.ask(request, version)

    async def _controller(self) -> int:
        found = await self.metadata([])
        nodes = self._reached()
        if found is None or found.controller_id not in nodes:
            return min(nodes, default=-1)
        return found.controller_id

    async def _ask_coordinator(self, request: DescribeGroupsRequest | OffsetFetchRequest, version: int) -> Any:
        group = request.group_id if isinstance(request, OffsetFetchRequest) else request.groups[0]
        found = await self._ask(await self._controller(), FindCoordinatorRequest(group), _FIND_VERSION)
        return None if found is None or found.error_code else await self._ask(found.node_id, request, version)

    async def _ask_leaders(self, request: Any, version: int, topics: str, partitions: str) -> Any:
        """Ask each leader for its part of a request that is about one topic."""
        (topic,) = getattr(request, topics)
        name = topic.topic if hasattr(topic, "topic") else topic.name
        found = await self.metadata([name])
        if found is None or found.topics[0].error_code:
            return None
        leaders = {each.partition_index: each.leader_id for each in found.topics[0].partitions}
        parts: dict[int, list[Any]] = {}
        for part in getattr(topic, partitions):
            parts.setdefault(leaders.get(_number_of(part), -1), []).append(part)
        # Without some of the leaders there is no whole answer.
        if not parts.keys() <= self._reached().keys():
            return None
        asked = []
        for node, own in parts.items():
            # Copies: the request is asked again as a whole where a leader has moved.
            its_topic, its_request = copy.copy(topic), copy.copy(request)
            setattr(its_topic, partitions, own)
            setattr(its_request, topics, [its_topic])
            if isinstance(its_request, FetchRequest):
                its_request.max_wait_ms = min(request.max_wait_ms, FETCH_WAIT_MS_MAX)
            asked.append(self._ask(node, its_request, version))
        answers = await asyncio.gather(*asked)
        outer = "topics" if isinstance(request, ListOffsetsRequest) else "responses"
        inner = "partition_responses" if isinstance(request, ProduceRequest) else "partitions"
        return None if None in answers else _together(answers, outer, inner)


def _number_of(part: Any) -> int:
    """The partition that a part of a request is about, as each API names it."""
    names = ("partition", "partition_index", "index")
    return int(next(getattr(part, name) for name in names if hasattr(part, name)))


def codes_of(answer: Any) -> set[int]:
    """The error codes in it, wherever they are."""
    found: set[int] = set()
    waiting = [answer]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif hasattr(each, "__dataclass_fields__"):
            found.add(getattr(each, "error_code", 0))
            waiting += [getattr(each, name) for name in each.__dataclass_fields__]
    return found


def _together(answers: Sequence[Any], outer: str, inner: str | None) -> Any:
    """The first answer, with what is in the lists of the others, too."""
    if not answers:
        return None
    first = answers[0]
    for other in answers[1:]:
        more = getattr(other, outer)
        if inner is None:
            getattr(first, outer).extend(more)
        else:
            getattr(getattr(first, outer)[0], inner).extend(getattr(more[0], inner))
    return first
