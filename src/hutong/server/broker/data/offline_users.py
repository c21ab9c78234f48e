"""Users of a node that does not run: read from its data folder, and written there.

Strategy: the folder is locked as by a node, and of all its journals the one of the metadata is opened, with what
recovery that needs. So the first user of a node exists before anybody can connect to it.

Knows nothing of commands.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from hutong.broker.authentication.scram import ScramUsers
from hutong.broker.state.log_storage import LogStorage
from hutong.broker.state.state_topic import StateTopic
from hutong.broker.topics.internal_topics import METADATA_TOPIC
from hutong.broker.topics.lifetimes import METADATA_GROUP
from hutong.foundation.clock import SystemClock
from hutong.journal.files.disk import RealDisk
from hutong.journal.journal import Journal
from hutong.runtime.runtime import Runtime
from hutong.runtime.threads.offload import ThreadOffload
from hutong.security.sasl.scram_credentials import Salted
from hutong.server.broker.data.data_dir import DataDir
from hutong.server.broker.data.users import put_user
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Settings

_METADATA_LOG_ID: Final = 0


class OfflineUsers:
    """The users in one data folder."""

    def __init__(self, users: ScramUsers) -> None:
        self._users = users

    @property
    def names(self) -> list[str]:
        return self._users.users

    def iterations(self, name: str) -> Mapping[int, int]:
        """By the numbers of mechanisms; of an unknown user none."""
        return self._users.iterations(name) or {}

    async def put(self, name: str, credentials: Mapping[int, Salted]) -> None:
        """Add the user, or replace these credentials. Raises Refused for a name that is none, and StorageError."""
        await put_user(self._users, name, credentials)

    async def remove(self, name: str) -> bool:
        """Remove a user; False where there is none of that name. Raises StorageError."""
        if name not in self._users.users:
            return False
        await put_user(self._users, name, None)
        return True


@asynccontextmanager
async def offline_users(folder: Path) -> AsyncIterator[OfflineUsers]:
    """Open a data folder, made where it is missing. Raises UsageError while a node uses it, and StorageError."""
    clock = SystemClock()
    async with Runtime(clock) as runtime:
        data_dir = DataDir(folder, os.urandom)
        offload = ThreadOffload(asyncio.get_running_loop(), 2, "hutong-disk")
        try:
            journal = await Journal.open(
                data_dir.group_path(METADATA_GROUP),
                disk=RealDisk(),
                offload=offload,
                clock=clock,
                timers=runtime.wheel,
                settings=translate.journal_settings(Settings(), METADATA_GROUP),
            )
            try:
                users = ScramUsers(os.urandom)
                state = StateTopic(METADATA_TOPIC, LogStorage(journal.log(_METADATA_LOG_ID)), clock)
                await state.replay(users.replay)
                users.start(state)
                yield OfflineUsers(users)
            finally:
                await journal.close()
        finally:
            offload.close()
            data_dir.close()
