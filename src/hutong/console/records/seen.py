"""Records as they were read for people."""

from dataclasses import dataclass

from hutong.bus.durable.records import StoredRecord


@dataclass(frozen=True, slots=True, eq=False)
class SeenRecord(StoredRecord):
    """A record with the facts that people ask for: whose time its timestamp is, and the leader's epoch."""

    timestamp_type: str | None = None
    leader_epoch: int | None = None
