"""The surroundings of a replica: links, the receiver of news, time, workers, the disk and bounds."""

from dataclasses import dataclass

from hutong.foundation.clock import Clock
from hutong.foundation.pace import BytePace
from hutong.foundation.timers import TimerWheel
from hutong.journal.files.disk import Disk
from hutong.replication.links import ReplicaLinks
from hutong.replication.replica_events import ReplicaEvents
from hutong.replication.settings import ReplicationSettings
from hutong.runtime.threads.offload import Offload


@dataclass(frozen=True, slots=True)
class ReplicaPorts:
    """The ports that both roles use."""

    links: ReplicaLinks
    events: ReplicaEvents
    clock: Clock
    timers: TimerWheel
    offload: Offload
    disk: Disk
    settings: ReplicationSettings
    pace: BytePace
