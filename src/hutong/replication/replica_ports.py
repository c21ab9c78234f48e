"""The surroundings of a replica: links, the receiver of news, time and bounds."""

from dataclasses import dataclass

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.replication.links import ReplicaLinks
from hutong.replication.replica_events import ReplicaEvents
from hutong.replication.settings import ReplicationSettings


@dataclass(frozen=True, slots=True)
class ReplicaPorts:
    """The ports that both roles use."""

    links: ReplicaLinks
    events: ReplicaEvents
    clock: Clock
    timers: TimerWheel
    settings: ReplicationSettings
