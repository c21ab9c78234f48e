"""Kafka clients of the gateway's users: for each one a producer and an admin client, made when they first ask.

Strategy: a request's name and password are tried at the broker once, by a login. As long as its clients live, the same
password is let in without another login. Clients that nobody has used for a while are closed.

Knows nothing of HTTP's requests.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from hutong.bus.durable.publishing import Publisher
from hutong.foundation.clock import Clock
from hutong.rest.errors import refusal_of, too_many
from hutong.rest.limits import ACCOUNT_IDLE_MS, ACCOUNTS_MAX, LOGIN_MS_MAX, LOGINS_MAX, PUBLISH_MS_MAX, UNDER_WAY_MAX
from hutong.web.admission import unauthorized
from hutong.web.answers import WebRefusal

NOBODY: Final = ""
_PASSWORD: Final = "password"
_TOKENS: Final = "tokens"
_Key = tuple[str, str]  # the kind of a login, and the user or the tokens' own key
_POLL_S: Final = 0.05
_CLOSE_S: Final = 5.0
Properties = Mapping[str, Any]
Blocking = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a call on another thread."""


class UserTokens(Protocol):
    """Access tokens of one user, by which its clients log in (SASL/OAUTHBEARER) in place of a password.

    `key` names the clients: those of one user with other tokens are others.
    """

    @property
    def key(self) -> str: ...

    @property
    def user(self) -> str: ...

    def of_client(self, config: str, /) -> tuple[str, float]:
        """The token and its end in Unix seconds. Called on any thread, again before each end."""
        ...


class Account:
    """The clients of one user. `readers` counts its consumers; while there are some it is in use."""

    def __init__(self, user: str, password: str, properties: Properties, now_ms: int) -> None:
        self.user = user
        self.properties = properties
        self.used_ms = now_ms
        self.readers = 0
        self._password = password
        self._failure: KafkaError | None = None
        self.admin = AdminClient({**properties, "error_cb": self._erred})  # type: ignore[dict-item]  # the stubs know no callbacks
        self.publisher = Publisher(
            {
                **properties,
                "enable.idempotence": True,
                "acks": "all",
                "partitioner": "murmur2_random",  # as Java's clients: the same key, the same partition
                "message.timeout.ms": PUBLISH_MS_MAX,
                "message.max.bytes": 64 << 20,  # the topic's own bound answers, with its own sentence
                "linger.ms": 0,  # a request waits for its records: what comes meanwhile is a batch anyway
            },
            UNDER_WAY_MAX,
        )

    def has_password(self, password: str) -> bool:
        return hmac.compare_digest(self._password.encode(), password.encode())

    def log_in(self) -> None:
        """Reach a broker, which looks at name and password. Blocks. Raises WebRefusal."""
        asked = self.admin.describe_cluster(request_timeout=LOGIN_MS_MAX / 1_000)
        # The library itself goes on trying with a password that is wrong.
        while not asked.done() and self._failure is None:
            self.admin.poll(_POLL_S)
        if self._failure is not None:
            raise unauthorized()
        error = asked.exception()
        if error is not None:
            raise refusal_of(error)

    def close(self) -> None:
        """Wait a while for records under way. Blocks."""
        self.publisher.close(_CLOSE_S)

    def _erred(self, error: KafkaError) -> None:
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
            self._failure = error


class Accounts:
    """All users with clients. On one loop; `blocking` runs calls on other threads."""

    def __init__(
        self,
        properties: Properties,
        clock: Clock,
        blocking: Blocking,
        *,
        asks_for_login: bool,
        takes_passwords: bool = True,
    ) -> None:
        """`properties` are librdkafka's, without the user. Without `asks_for_login` everybody is the same nobody."""
        self.asks_for_login = asks_for_login
        self.takes_passwords = takes_passwords
        self._properties = properties
        self._clock = clock
        self._blocking = blocking
        self._accounts: dict[_Key, Account] = {}
        self._retired: list[Account] = []  # of passwords that are no longer valid; requests may still use them
        self._logins: dict[tuple[_Key, str], asyncio.Task[Account]] = {}

    async def of(self, user: str, password: str) -> Account:
        """The account of a user. Raises WebRefusal: 401 for a wrong password, 429 for too many users, 503."""
        key = (_PASSWORD, user)
        found = self._accounts.get(key)
        if found is None or not found.has_password(password):
            found = await self._logged_in(key, user, password, self._properties_of(user, password))
        found.used_ms = self._clock.monotonic_ms()
        return found

    async def of_tokens(self, tokens: UserTokens) -> Account:
        """The account of a user that has tokens. Raises WebRefusal as `of` does."""
        key = (_TOKENS, tokens.key)
        found = self._accounts.get(key)
        if found is None:
            own = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": tokens.of_client}
            found = await self._logged_in(key, tokens.user, "", {**self._properties, **own})
        found.used_ms = self._clock.monotonic_ms()
        return found

    def forget(self, tokens: UserTokens) -> None:
        """Close the clients of tokens that have ended, once nothing reads by them: they would log in for ever."""
        account = self._accounts.pop((_TOKENS, tokens.key), None)
        if account is not None:
            account.used_ms = self._clock.monotonic_ms() - ACCOUNT_IDLE_MS - 1
            self._retired.append(account)

    async def close_idle(self) -> None:
        """Close the clients that nobody has used for a while."""
        before_ms = self._clock.monotonic_ms() - ACCOUNT_IDLE_MS
        idle = [
            account
            for account in (*self._accounts.values(), *self._retired)
            if not account.readers and account.used_ms < before_ms
        ]
        self._accounts = {key: account for key, account in self._accounts.items() if account not in idle}
        self._retired = [account for account in self._retired if account not in idle]
        for account in idle:
            await self._blocking(account.close)

    async def close(self) -> None:
        """Close all of them."""
        for task in [*self._logins.values()]:
            task.cancel()
        accounts = (*self._accounts.values(), *self._retired)
        self._accounts, self._retired = {}, []
        for account in accounts:
            await self._blocking(account.close)

    async def _logged_in(self, key: _Key, user: str, password: str, properties: Properties) -> Account:
        """One login for all requests that come meanwhile, which goes on when the first of them is given up."""
        login = self._logins.get((key, password))
        if login is None:
            if len(self._logins) >= LOGINS_MAX:
                raise too_many(f"{LOGINS_MAX} logins are under way")
            log_in = self._log_in(key, user, password, properties)
            login = self._logins[key, password] = asyncio.get_running_loop().create_task(log_in)
            login.add_done_callback(lambda _: self._logins.pop((key, password)))
        return await asyncio.shield(login)

    async def _log_in(self, key: _Key, user: str, password: str, properties: Properties) -> Account:
        if key not in self._accounts and len(self._accounts) >= ACCOUNTS_MAX:
            await self.close_idle()
            if len(self._accounts) >= ACCOUNTS_MAX:
                raise too_many(f"{ACCOUNTS_MAX} users are here already")
        now_ms = self._clock.monotonic_ms()
        try:
            # On a thread: the library waits a second for the first token of each client.
            account: Account = await self._blocking(lambda: Account(user, password, properties, now_ms))
        # The library takes no empty ones, and no NUL.
        except (KafkaException, ValueError):
            raise unauthorized() from None
        try:
            await self._blocking(account.log_in)
        except WebRefusal:
            await self._blocking(account.close)
            raise
        before = self._accounts.get(key)
        if before is not None:
            self._retired.append(before)
        self._accounts[key] = account
        return account

    def _properties_of(self, user: str, password: str) -> Properties:
        if not self.asks_for_login:
            return self._properties
        return {**self._properties, "sasl.username": user, "sasl.password": password}
