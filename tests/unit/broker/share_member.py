"""A member of a share group that says exactly what a test wants said."""

from typing import Any

from tests.unit.broker.wire_node import WireClient, batch_of

from hutong.server.configuration.sections.share_groups import ShareGroupSettings
from hutong.server.configuration.settings import Settings
from hutong.wire.kafka.apis.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from hutong.wire.kafka.apis.k78_share_fetch import ShareFetchRequest, ShareFetchResponse
from hutong.wire.kafka.apis.k79_share_acknowledge import ShareAcknowledgeRequest
from hutong.wire.kafka.apis.shared import AcknowledgementBatch, AcknowledgePartition, AcknowledgeTopic
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records

NOW_MS = 1_700_000_000_000
LOCK_MS = 1_000
SETTINGS = Settings(share=ShareGroupSettings(record_lock_duration_ms=LOCK_MS, delivery_count_limit=2))
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


class Member:
    """A member of a share group as a careful client would be."""

    def __init__(self, client: WireClient, member_id: str, group_id: str = "g") -> None:
        self.client = client
        self.member_id = member_id
        self.group_id = group_id
        self.epoch = 0
        self.topic_ids: list[bytes] = []

    async def beat(self, epoch: int = 0, *topics: str) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            self.group_id, self.member_id, epoch, subscribed_topic_names=list(topics) or None
        )
        answer: ShareGroupHeartbeatResponse = await self.client.ask(request, 1)
        if answer.assignment is not None:
            self.topic_ids = [each.topic_id for each in answer.assignment.topic_partitions]
        return answer

    async def begin(self, *topics: str) -> None:
        """Join, and let the group begin here."""
        assert (await self.beat(0, *topics)).error_code == 0
        answer = await self.fetch(partitions=True)
        assert answer.error_code == 0

    def request(
        self,
        *acknowledged: tuple[int, int, int],
        partitions: bool = False,
        epoch: int | None = None,
        **options: Any,
    ) -> ShareFetchRequest:
        batches = [AcknowledgementBatch(first, last, [kind]) for first, last, kind in acknowledged]
        topics = [AcknowledgeTopic(topic_id, [AcknowledgePartition(0, batches)]) for topic_id in self.topic_ids]
        asked: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_records": 100, "batch_size": 100, **options}
        if epoch is None:
            epoch, self.epoch = self.epoch, self.epoch + 1
        return ShareFetchRequest(
            self.group_id,
            self.member_id,
            epoch,
            topics=topics if acknowledged or partitions else [],
            **asked,
        )

    async def fetch(self, *acknowledged: tuple[int, int, int], version: int = 2, **options: Any) -> ShareFetchResponse:
        answer: ShareFetchResponse = await self.client.ask(self.request(*acknowledged, **options), version)
        return answer

    def acknowledgement(self, *acknowledged: tuple[int, int, int], epoch: int | None = None) -> ShareAcknowledgeRequest:
        batches = [AcknowledgementBatch(first, last, [kind]) for first, last, kind in acknowledged]
        topics = [AcknowledgeTopic(topic_id, [AcknowledgePartition(0, batches)]) for topic_id in self.topic_ids]
        if epoch is None:
            epoch, self.epoch = self.epoch, self.epoch + 1
        is_renewal = any(kind == RENEW for _, _, kind in acknowledged)
        return ShareAcknowledgeRequest(self.group_id, self.member_id, epoch, is_renewal, topics if batches else [])

    async def acknowledge(self, *acknowledged: tuple[int, int, int], epoch: int | None = None, version: int = 2) -> Any:
        return await self.client.ask(self.acknowledgement(*acknowledged, epoch=epoch), version)


def acquired(answer: ShareFetchResponse) -> list[tuple[int, int, int]]:
    assert answer.error_code == 0
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for each in partition.acquired_records
    ]


def values(answer: ShareFetchResponse) -> list[bytes | None]:
    """The records that came, acquired or not."""
    found = []
    for topic in answer.responses:
        for partition in topic.partitions:
            records: Any = partition.records
            for _, batch in iterate_batches(memoryview(records)):
                found += [record.value for record in iterate_records(batch)]
    return found


def acknowledge_errors(answer: ShareFetchResponse) -> list[int]:
    return [each.acknowledge_error_code for topic in answer.responses for each in topic.partitions]


async def produce(client: WireClient, *batches: list[bytes]) -> None:
    for batch in batches:
        assert (await client.produce(batch_of(*batch, timestamp_ms=NOW_MS))).error_code == 0
