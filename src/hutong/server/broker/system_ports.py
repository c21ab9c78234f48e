"""The ports through which a broker touches its machine: disk, folder, listening sockets, threads and chance.

The loop and the clock are the runtime's. A simulator replaces all of these, and nothing else of a node. It also makes
journals and state topics smaller than settings allow, so that the end of a file is as common as a record.
"""

import os
import shutil
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hutong.broker.state.state_topic import GARBAGE_FLOOR_BYTES, SLICE_BYTES
from hutong.foundation.clock import Clock, thread_processor_us
from hutong.journal.files.disk import Disk, RealDisk
from hutong.journal.settings import JournalSettings
from hutong.reactor.accept.acceptor import OpenSocket
from hutong.runtime.threads.offload import ClosableOffload, ThreadOffload
from hutong.runtime.threads.pools import PENDING_WORK_MAX
from hutong.server.broker.data.data_dir import DataDir, DataFolder
from hutong.server.configuration import translate
from hutong.server.configuration.sections.cluster import NodeClusterSettings
from hutong.server.configuration.settings import Settings

if TYPE_CHECKING:
    from hutong.cluster.coordinator.port import Coordinator
    from hutong.cluster.peers.paths import PeerPaths

RandomBytes = Callable[[int], bytes]


class MakeOffload(Protocol):
    """Makes workers whose results come back on `loop`."""

    def __call__(
        self, loop: AbstractEventLoop, workers: int, name: str, pending_max: int = PENDING_WORK_MAX
    ) -> ClosableOffload: ...


def _volume_bytes(path: Path) -> tuple[int, int]:
    volume = shutil.disk_usage(path)
    return volume.total, volume.free


class OpenCoordinator(Protocol):
    """Opens the session of a node with the coordinator of its cluster."""

    def __call__(
        self, settings: NodeClusterSettings, node: int, clock: Clock, loop: AbstractEventLoop
    ) -> "Coordinator": ...


def _zookeeper(settings: NodeClusterSettings, node: int, clock: Clock, loop: AbstractEventLoop) -> "Coordinator":
    from hutong.server.cluster.assembly import zookeeper_coordinator  # late: a node alone never needs it

    return zookeeper_coordinator(settings, clock)


@dataclass(frozen=True, slots=True)
class SystemPorts:
    """By default those of this machine."""

    disk: Disk = field(default_factory=RealDisk)
    open_folder: Callable[[Path, RandomBytes], DataFolder] = DataDir
    open_socket: OpenSocket = socket.socket  # it will listen
    make_offload: MakeOffload = ThreadOffload
    random_bytes: RandomBytes = os.urandom
    processor_us: Callable[[], int] = thread_processor_us  # of the loop's thread
    volume_bytes: Callable[[Path], tuple[int, int]] = _volume_bytes  # total and free
    journal_settings: Callable[[Settings, str, int], JournalSettings] = (
        translate.journal_settings
    )  # of a partition group
    open_coordinator: OpenCoordinator = _zookeeper
    peer_paths: "PeerPaths | None" = None  # to other nodes, where a test closes them
    state_garbage_bytes: int = GARBAGE_FLOOR_BYTES  # in a state topic, before it is compacted
    state_slice_bytes: int = SLICE_BYTES  # of a state topic's snapshot
