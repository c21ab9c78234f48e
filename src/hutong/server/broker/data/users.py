"""Users made by the node's own program: with a password in hand, salted here.

Knows nothing of where users are kept.
"""

import asyncio
import os
from collections.abc import Mapping
from functools import partial

from hutong.broker.authentication.scram import ScramUsers, check_user
from hutong.foundation.errors import ExitCode, Refused, UsageError
from hutong.foundation.waiting.pending import settle_future
from hutong.runtime.threads.offload import Offload, run
from hutong.security.sasl.scram_credentials import ITERATIONS_MIN, MECHANISMS, Salted, salt_password


def salted(password: str, iterations: int = ITERATIONS_MIN) -> dict[int, Salted]:
    """For every mechanism, by its number. Slow: not for a loop."""
    secret = password.encode()
    return {each.number: salt_password(each, secret, iterations, os.urandom) for each in MECHANISMS.values()}


async def put_user(users: ScramUsers, name: str, credentials: Mapping[int, Salted] | None) -> None:
    """Add, change, or with None remove a user; durable on return. Raises Refused for what is no name, StorageError."""
    check_user(name)
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    then = partial(settle_future, done)
    if credentials is None:
        users.remove(name, then)
    else:
        users.change(name, [], credentials, then)
    await done


async def put_users(users: ScramUsers, passwords: Mapping[str, str], offload: Offload) -> None:
    """Give each of them this password. Raises UsageError for a name or password that is none."""
    for name, password in passwords.items():
        if not password:
            raise UsageError(f"The user {name} has an empty password; give one.", ExitCode.CONFIG)
        try:
            await put_user(users, name, await run(offload, partial(salted, password)))
        except Refused as refused:
            raise UsageError(str(refused), ExitCode.CONFIG) from None
