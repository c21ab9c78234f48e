"""Looks at a cluster as a whole, and waits for it: who leads, and whether all replicas are in sync.

Strategy: by Kafka's metadata, asked again every few milliseconds. A node counts where it runs and is not cut off.

Knows nothing of threads.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from hutong.foundation.clock import Clock
from hutong.foundation.errors import OwnerGone
from hutong.testing.cluster.routing import RoutedLoopback
from hutong.testing.observe.observer import Asking
from hutong.testing.values import WaitFailed, listed
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from hutong.wire.kafka.apis.k10_find_coordinator import FindCoordinatorRequest

ASK_AGAIN_S: Final = 0.01
ELECTION_S_MAX: Final = 30.0
"""For one that takes a session at most on an idle machine."""
IN_SYNC_S_MAX: Final = 60.0
"""As long as a node may need to get into the cluster (`cluster.start_timeout_ms`)."""
Coordinated = Literal["group", "transaction"]
_KINDS: Final[dict[str, int]] = {"group": 0, "transaction": 1}
_METADATA_VERSION: Final = 9
_FIND_VERSION: Final = 3


class ClusterWatch:
    """`reached` has a client of each node that runs and is not cut off, by number."""

    def __init__(self, loopback: RoutedLoopback, reached: Callable[[], Mapping[int, Asking]], clock: Clock) -> None:
        self._loopback = loopback
        self._reached = reached
        self._clock = clock

    async def leader_of(self, topic: str, partition: int, timeout_ms: int) -> int:
        """Raises WaitFailed."""

        def leader_in(found: MetadataResponse) -> int:
            parts = found.topics[0].partitions if found.topics else []
            return next((part.leader_id for part in parts if part.partition_index == partition), -1)

        return await self._node_in(leader_in, [topic], f"{topic}/{partition} had no leader", timeout_ms)

    async def controller(self, timeout_ms: int) -> int:
        """Raises WaitFailed."""
        return await self._node_in(lambda found: found.controller_id, [], "there was no controller", timeout_ms)

    async def coordinator_of(self, name: str, kind: Coordinated, timeout_ms: int) -> int:
        """Raises WaitFailed, and ValueError for a kind that has no coordinator."""
        if kind not in _KINDS:
            raise ValueError(f"{kind!r} is not coordinated; choose {' or '.join(_KINDS)}")
        until_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            found = await self._loopback.ask(FindCoordinatorRequest(name, _KINDS[kind]), _FIND_VERSION)
            if not found.error_code and found.node_id in self._reached():
                node: int = found.node_id
                return node
            if self._clock.monotonic_ms() >= until_ms:
                raise WaitFailed(f"{kind} {name} had no coordinator within {timeout_ms / 1000:g} s")
            await asyncio.sleep(ASK_AGAIN_S)

    async def wait_for_topics(self, names: Sequence[str], timeout_ms: int) -> None:
        """Return once each node knows them, with a leader within reach for each partition. Raises WaitFailed."""

        def lacking(found: MetadataResponse) -> list[str]:
            return [
                f"{topic.name}: {topic.error_code or 'no leader'}"
                for topic in found.topics
                if topic.error_code or any(part.leader_id not in self._reached() for part in topic.partitions)
            ]

        await self._wait_for_none(lacking, names, f"not all nodes knew {', '.join(names)}", timeout_ms)

    async def wait_until_in_sync(self, timeout_ms: int) -> None:
        """Raises WaitFailed, which lists what is not."""

        def lacking(found: MetadataResponse) -> list[str]:
            nodes = self._reached().keys()
            missing = nodes - {broker.node_id for broker in found.brokers}
            return [
                *(f"node {node} is not known" for node in sorted(missing)),
                *(f"node {each.node_id} is known still" for each in found.brokers if each.node_id not in nodes),
                *(
                    f"{topic.name}/{part.partition_index}: led by {part.leader_id}, in sync {sorted(part.isr_nodes)}"
                    for topic in found.topics
                    for part in topic.partitions
                    if part.leader_id not in nodes or nodes & set(part.replica_nodes) - set(part.isr_nodes)
                ),
            ]

        await self._wait_for_none(lacking, None, "not all replicas were in sync", timeout_ms)

    async def _node_in(
        self, pick: Callable[[MetadataResponse], int], topics: Sequence[str], what: str, timeout_ms: int
    ) -> int:
        until_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            try:
                found = await self._loopback.metadata(topics)
            except OwnerGone:
                found = None
            node = -1 if found is None else pick(found)
            # The nodes may not have noticed yet that one is dead.
            if node in self._reached():
                return node
            if self._clock.monotonic_ms() >= until_ms:
                raise WaitFailed(f"{what} within {timeout_ms / 1000:g} s{self._running()}")
            await asyncio.sleep(ASK_AGAIN_S)

    async def _wait_for_none(
        self,
        lacking: Callable[[MetadataResponse], Iterable[str]],
        topics: Sequence[str] | None,
        what: str,
        timeout_ms: int,
    ) -> None:
        """Wait until no node lacks anything."""
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        # Asking must not make the topics that are waited for.
        request = MetadataRequest(names, allow_auto_topic_creation=False)
        until_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            try:
                nodes = self._reached()
                answers = await asyncio.gather(*(node.ask(request, _METADATA_VERSION) for node in nodes.values()))
                told = [
                    f"node {number}: {line}"
                    for number, answer in zip(nodes, answers, strict=True)
                    for line in lacking(answer)
                ]
            except OwnerGone:
                told = ["a node has ended meanwhile"]
            if nodes and not told:
                return
            if self._clock.monotonic_ms() >= until_ms:
                raise WaitFailed(f"{what} within {timeout_ms / 1000:g} s{self._running()}{listed(told)}")
            await asyncio.sleep(ASK_AGAIN_S)

    def _running(self) -> str:
        return f"; nodes within reach: {', '.join(map(str, self._reached())) or 'none'}"
