"""Everything that clients do at once, on record: producers of several kinds, a group that commits, a housekeeper.

Strategy: topics in every partition group, by how long they keep; idempotent producers with acks=all and a careless one
with acks=1, each with another codec; two members of one group read all but the topic whose records are deleted. In the
end every partition is read whole, and the histories of all are judged together.
"""

import contextlib
from types import TracebackType
from typing import Any, Final

from bench.raw_client import create_topic
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.confluent import DEADLINE_S, offset_of, read_partition, values
from tests.support.load import CARELESS, Housekeeper, RecordedLoad, RecordedMember
from tests.support.log_checker import Anomaly, History, Partition, Share, check, merged

HOUR_MS: Final = 3_600_000
TRIMMED: Final = "trimmed"
PARTITIONS: Final = 2
PER_SECOND_MAX: Final = 2000
GROUP: Final = "readers"
TOPICS: Final = {  # each in another partition group
    "safe": {},
    "hasty": {"retention.ms": str(HOUR_MS)},
    "kept": {"cleanup.policy": "compact"},
    TRIMMED: {"retention.ms": "-1"},
}


class MixedLoad:
    """All of it while entered, with records of `value_bytes` at least. `settings` go to every producer."""

    def __init__(self, bootstrap: str, value_bytes: int = 0, **settings: Any) -> None:
        for topic, configs in TOPICS.items():
            create_topic(bootstrap, topic, partitions=PARTITIONS, configs=configs, records=0)

        def load(topic: str, label: str, codec: str, **more: Any) -> RecordedLoad:
            more = {"compression.type": codec, **more, **settings}
            return RecordedLoad(bootstrap, topic, PARTITIONS, label, PER_SECOND_MAX, value_bytes, **more)

        self.loads = [
            load("safe", "first", "none"),
            load("safe", "second", "lz4"),
            load("hasty", "careless", "gzip", **CARELESS),
            load("kept", "keyed", "zstd"),
            load(TRIMMED, "trimmed", "snappy"),
        ]
        read = [topic for topic in TOPICS if topic != TRIMMED]
        self.members = [RecordedMember(bootstrap, GROUP, read, f"member-{number}") for number in range(2)]
        self.housekeeper = Housekeeper(bootstrap, TRIMMED, PARTITIONS)
        self._all = [*self.loads, *self.members, self.housekeeper]
        self._entered = contextlib.ExitStack()

    def __enter__(self) -> "MixedLoad":
        for recorded in self._all:
            self._entered.enter_context(recorded)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)

    def wait_for_acknowledged(self, more: int) -> None:
        """Returns when every producer has so many further records acknowledged."""
        for load in self.loads:
            load.wait_for_acknowledged(more)

    @property
    def history(self) -> History:
        return merged(recorded.history for recorded in self._all)

    def anomalies(self, bootstrap: str) -> list[Anomaly]:
        """Reads everything and judges."""
        final = {
            (topic, partition): self.read(bootstrap, topic, partition)
            for topic in TOPICS
            for partition in range(PARTITIONS)
        }
        return check(self.history, final_reads=final, final_commits=self._commits(bootstrap))

    def wrong_topics(self, bootstrap: str) -> set[str]:
        """Topics whose making or deleting was acknowledged, and is not so."""
        known = set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=DEADLINE_S).topics)
        return (self.housekeeper.topics_made - known) | (self.housekeeper.topics_deleted & known)

    @staticmethod
    def read(bootstrap: str, topic: str, partition: int) -> list[tuple[int, bytes]]:
        """A partition from start to end."""
        messages = read_partition(bootstrap, topic, partition)
        return list(zip(map(offset_of, messages), values(messages), strict=True))

    def _commits(self, bootstrap: str) -> dict[Share, int]:
        shares: list[Partition] = [place for group, place in self.history.committed if group == GROUP]
        asker = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
        try:
            found = asker.committed([TopicPartition(*place) for place in shares], DEADLINE_S) if shares else []
            return {(GROUP, (place.topic, place.partition)): max(0, place.offset) for place in found}
        finally:
            asker.close()
