"""The things that all handlers of the gateway share: accounts, other threads, and the cluster they are asked about.

Decides nothing about requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from confluent_kafka import KafkaException, TopicCollection

from hutong.rest.accounts import NOBODY, Account, Accounts, Blocking, UserTokens
from hutong.rest.errors import refusal_of
from hutong.rest.limits import CALL_S_MAX, READERS_MAX
from hutong.security.principals import ANONYMOUS, USER, Principal
from hutong.web.admission import basic_credentials
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from hutong.foundation.clock import Clock
    from hutong.reactor.connections.handler import Peer
    from hutong.rest.reading.reader import RecordReader
    from hutong.web.messages import HttpRequest
    from hutong.web.requests import WebRequest

T = TypeVar("T")


class Gateway:
    """`url` is the gateway's own, as links show it; it is set when the port is known."""

    def __init__(
        self,
        accounts: Accounts,
        clock: Clock,
        blocking: Blocking,
        credentials: Callable[[HttpRequest | WebRequest], tuple[str, bytes]] = basic_credentials,
        tokens: Callable[[HttpRequest | WebRequest], UserTokens | None] = lambda _: None,
    ) -> None:
        """`credentials` finds the name and password of a request, `tokens` those of a user that has tokens instead.

        Both raise WebRefusal(401).
        """
        self.accounts = accounts
        self.clock = clock
        self.readers = 0  # consumers of all accounts, at most READERS_MAX
        self._blocking = blocking
        self._credentials = credentials
        self._tokens = tokens
        self._closing: set[asyncio.Task[None]] = set()  # a loop refers to its tasks weakly
        self._cluster_id: str | None = None

    async def admit(self, request: HttpRequest, peer: Peer) -> Principal:
        """Log the request's user in. Raises WebRefusal(401)."""
        if not self.accounts.asks_for_login:
            return ANONYMOUS
        user, password = self._credentials(request)
        await self.accounts.of(user, _text(password))
        return Principal(USER, user)

    async def account(self, request: WebRequest) -> Account:
        """The account of a request that was admitted."""
        if not self.accounts.asks_for_login:
            return await self.accounts.of(NOBODY, "")
        tokens = self._tokens(request)
        if tokens is not None:
            return await self.accounts.of_tokens(tokens)
        user, password = self._credentials(request)
        return await self.accounts.of(user, _text(password))

    async def blocking(self, call: Callable[[], T]) -> T:
        """The outcome of a call on another thread. Raises WebRefusal for an error of the client library."""
        try:
            return cast("T", await self._blocking(call))
        except KafkaException as error:
            raise refusal_of(error) from None
        # Of a future: the broker has not answered, which is no fault of the gateway.
        except TimeoutError:
            raise WebRefusal(503, "The brokers have not answered in time.", 50301) from None
        # The library's own word for an argument that it does not take.
        except (ValueError, TypeError) as error:
            raise WebRefusal(400, str(error), 40002) from None

    async def one(self, asked: Callable[[], Mapping[Any, Future[T]]]) -> T:
        """The only outcome of an admin call that gives a future for each thing."""

        def wait() -> T:
            (future,) = asked().values()
            return future.result(CALL_S_MAX)

        return await self.blocking(wait)

    async def described_topic(self, account: Account, topic: str) -> Any:
        """The topic with its partitions. Other than metadata, the question makes no topic. Raises WebRefusal(404)."""
        return await self.one(partial(account.admin.describe_topics, TopicCollection([topic])))

    async def cluster_id(self, account: Account) -> str:
        """The id of the cluster, asked for once."""
        if self._cluster_id is None:
            found = await self.blocking(lambda: account.admin.describe_cluster().result(CALL_S_MAX))
            self._cluster_id = str(found.cluster_id)
        return self._cluster_id

    async def checked(self, request: WebRequest) -> Account:
        """The account of a request whose path names the cluster. Raises WebRefusal(404) for another cluster."""
        account = await self.account(request)
        asked = request.text("cluster")
        if asked != await self.cluster_id(account):
            raise WebRefusal(404, f"Cluster {asked[:100]} cannot be found.", 40401)
        return account

    def take_reader(self, account: Account) -> None:
        """Count one consumer more. Raises WebRefusal(429)."""
        if self.readers >= READERS_MAX:
            raise WebRefusal(429, f"{READERS_MAX} consumers are here already", 42901, headers=[("Retry-After", "1")])
        self.readers += 1
        account.readers += 1

    def give_reader_back(self, account: Account) -> None:
        """Count it no more."""
        self.readers -= 1
        account.readers -= 1
        account.used_ms = self.clock.monotonic_ms()

    def close_soon(self, account: Account, reader: RecordReader) -> None:
        """Close a consumer whose client may be gone already, and count it no more."""
        task = asyncio.get_running_loop().create_task(self._closed(account, reader))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Wait for consumers that are being closed, then close all accounts."""
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self.accounts.close()

    async def _closed(self, account: Account, reader: RecordReader) -> None:
        try:
            await self.blocking(reader.close)
        finally:
            self.give_reader_back(account)


def _text(password: bytes) -> str:
    try:
        return password.decode()
    except UnicodeDecodeError:
        raise WebRefusal(400, "the password is not UTF-8") from None
