"""Partition groups that come and go while a node runs: those that were split off others (`cluster/splits`).

    split made   source ─ fork ─▶ the new group's folder ─▶ its journal is opened, and follows or leads
    dropped      its partitions were deleted: close the journal, remove the files

Strategy: the record of a split comes before the states that it has led to. So a replica of the source makes the fork
before it takes part in the next epoch, and nothing of that epoch is in the fork. Until the new journal is
open, a stand-in refuses what the partitions are asked.

Decides nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.lifetimes import DATA_GROUPS
from hutong.broker.topics.partition import Topic
from hutong.cluster.controller.commands import CommandReply, DropGroup
from hutong.cluster.driver import ClusterDriver
from hutong.cluster.image import ClusterImage
from hutong.cluster.splits import FIRST_NUMBER, Split, places_of, split_name
from hutong.foundation.errors import HutongError, StorageError
from hutong.journal.files.disk import Disk
from hutong.replication.driver import GroupReplica
from hutong.runtime.threads.offload import run
from hutong.server.broker.data.data_dir import DataFolder
from hutong.server.broker.data.journals import NodeJournals
from hutong.server.cluster.control import ClusterControl
from hutong.server.cluster.lean_groups import LeanGroups
from hutong.server.cluster.standings import ClusterStandings

_log: Final = logging.getLogger("hutong.cluster")


class GroupListener(Protocol):
    """The rest of the node, as far as it knows of single groups."""

    def group_dropped(self, group: str) -> None:
        """Forget a group, which is no more."""


class SplitGroups:
    """The groups of this node that were split off others."""

    def __init__(
        self,
        image: ClusterImage,
        driver: ClusterDriver,
        control: ClusterControl,
        standings: ClusterStandings,
        topics: Topics,
        journals: NodeJournals,
        folder: DataFolder,
        disk: Disk,
        make_replica: Callable[[str], GroupReplica],
        listener: GroupListener,
        lean: LeanGroups,
    ) -> None:
        self._image = image
        self._driver = driver
        self._control = control
        self._standings = standings
        self._topics = topics
        self._journals = journals
        self._folder = folder
        self._disk = disk
        self._make_replica = make_replica
        self._listener = listener
        self._lean = lean
        self._names: set[str] = set()
        self._removals: set[asyncio.Task[None]] = set()
        topics.on_change.append(self._topic_changed)

    def changed(self, name: str) -> None:
        """Note that the metadata say something else of a split."""
        split = self._image.splits.get(name)
        if split is None:
            self._drop(name)
        elif split.is_made and name not in self._names:
            self._add(name, split)
        self._lean.look()

    def led(self) -> None:
        """Note that this node leads a group."""
        self._lean.look()

    def drop_ownerless(self) -> None:
        """Have groups dropped whose partitions are all gone, if this node is the controller."""
        if not self._control.is_controlling or not self._image.splits:
            return
        owned = {log_id for topic in self._topics.all() for log_id in topic.log_ids}
        places = places_of(self._image.splits)
        needed = {places.get(log_id) for log_id in owned}
        for name, split in list(self._image.splits.items()):
            # One that is not made yet is nobody's place, and will be.
            if name not in needed and (split.is_made or owned.isdisjoint(split.log_ids)):
                self._control.command(DropGroup(name), _ignore)

    def remove_leftovers(self) -> None:
        """Remove the files of groups that were dropped while this node was away: it knows the metadata now."""
        numbers = range(FIRST_NUMBER, self._image.split_number + 1)
        names = [split_name(lifetime, number) for lifetime in DATA_GROUPS for number in numbers]
        gone = [self._folder.group_path(name) for name in names if name not in self._image.splits]
        if gone:
            self._begin(self._remove_files(gone))

    async def close(self) -> None:
        """Do nothing more, and wait until the files of dropped groups are removed."""
        self._lean.close()
        await asyncio.gather(*self._removals)

    def _topic_changed(self, _topic: Topic, exists: bool) -> None:
        if not exists:
            self.drop_ownerless()

    def _add(self, name: str, split: Split) -> None:
        """Make this node's replica of a new group."""
        _log.info("the group %s is split off %s.", name, split.source)
        driver = self._driver
        self._names.add(name)
        self._standings.add(name)
        self._journals.add_group(name, self._folder)
        replica = driver.replicas[name] = self._make_replica(name)
        source = driver.replicas.get(split.source)
        forked = partial(self._forked, name, replica)
        if source is None:  # it is gone, and was dropped after all its replicas had made the fork
            forked(None)
        else:
            source.fork(self._folder.group_path(name), split.epoch, forked)
        self._topics.place(places_of(self._image.splits))
        known = driver.groups.get(name)
        if known is not None:
            replica.apply(known)
            self._standings.group_changed(known, driver.live)
        self.drop_ownerless()

    def _forked(self, name: str, replica: GroupReplica, error: HutongError | None) -> None:
        if error is None:
            replica.begin()
        else:
            # The controller hears that this node has no such replica, and takes it out of the set.
            self._driver.journal_failed(name, error)

    def _drop(self, name: str) -> None:
        """Forget a group and remove its files."""
        if name not in self._names:
            return
        _log.info("the group %s has no partitions any more, and is removed.", name)
        self._names.discard(name)
        replica = self._driver.replicas.pop(name)
        self._driver.groups.pop(name, None)
        self._standings.remove(name)
        self._listener.group_dropped(name)
        self._begin(self._remove(name, replica))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        removal = asyncio.get_running_loop().create_task(work)
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)

    async def _remove(self, name: str, replica: GroupReplica) -> None:
        try:
            await replica.close()
        except StorageError as error:
            _log.error("the group %s was not closed cleanly: %s.", name, error)
        await self._remove_files([self._folder.group_path(name)])
        self._journals.remove_group(name)

    async def _remove_files(self, directories: Sequence[Path]) -> None:
        """Remove all files there. What a disk refuses is removed after the next start."""
        try:
            await run(self._journals.offload, lambda: _empty(self._disk, directories))
        except HutongError as error:
            _log.error("the files of groups that were dropped could not be removed: %s.", error)


def _empty(disk: Disk, directories: Sequence[Path]) -> None:
    for directory in directories:
        names = disk.list(directory)
        for name in names:
            disk.unlink(directory / name)
        if names:
            disk.sync_directory(directory)


def _ignore(_reply: CommandReply | HutongError) -> None:
    """Go on: what was not done is asked for again with the next topic that is deleted, and by the next controller."""
