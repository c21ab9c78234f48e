"""SASL in front of the dispatch of a listener, and the tables and threads that all such listeners share.

Strategy: passwords are checked on one thread of their own, so that logins take no more than one core, and neither
flushes nor reads wait for them; how many may wait for it is bounded.

Decides nothing: `broker/authentication/exchange.py` carries out what `security/sasl` decides.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.authentication.delegation_tokens import DelegationTokens
from hutong.broker.authentication.exchange import Authentication, AuthenticationLimits, AuthenticationWaits
from hutong.broker.authentication.scram import ScramUsers
from hutong.broker.configs.node_configs import NodeConfigs
from hutong.broker.dispatch.dispatcher import Dispatch
from hutong.broker.topics.topic_config import ConfigKey, ConfigType, whole
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, UsageError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.connections.handler import Handler
from hutong.security.sasl import plain
from hutong.security.sasl.figures import SaslFigures
from hutong.security.sasl.guesses import Guesses
from hutong.security.sasl.machine import Exchange, Rules
from hutong.security.sasl.scram import ScramExchange, Tokens
from hutong.security.sasl.scram_credentials import MECHANISM_NAMES, Mechanism
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.configuration.sections.facts import INT64_MAX
from hutong.server.configuration.sections.security import OauthSettings
from hutong.server.configuration.settings import Settings
from hutong.server.listeners.plans import planned
from hutong.server.listeners.rules import OAUTHBEARER, mechanisms_of

if TYPE_CHECKING:
    from hutong.server.listeners.oauth.tokens import OauthTokens
    from hutong.server.listeners.web_users import WebUsers

_CONNECTIONS_MAX: Final = 1_000_000  # one for each connection: the reactor bounds those
_CHECKS_MAX: Final = 1_000  # passwords that wait to be checked, some milliseconds each
_NONCE_BYTES: Final = 24
_log = logging.getLogger("hutong.oauth")


class Authenticators:
    """Of one node. `before` each listener with SASL; `close` once none is left."""

    def __init__(
        self,
        settings: Settings,
        users: ScramUsers,
        tokens: DelegationTokens,
        loop: asyncio.AbstractEventLoop,
        wheel: TimerWheel,
        clock: Clock,
        ports: SystemPorts,
    ) -> None:
        """Raises UsageError for mechanisms that are wrong."""
        section = settings.sasl
        self.figures = SaslFigures()
        self._allow_without_tls = section.allow_without_tls
        self._users = users
        self._clock = clock
        self._session_ms = section.connections_max_reauth_ms
        exchanges = _exchanges(users, _lookup(tokens, clock), ports.random_bytes, " ".join(settings.oauth.scope))
        self._rules = {
            name: Rules({each: exchanges[each] for each in mechanisms}, self._session_ms)
            for name, mechanisms in mechanisms_of(section, planned(settings.kafka)).items()
        }
        self.access_tokens: OauthTokens | None = None
        if any(OAUTHBEARER in rules.exchanges for rules in self._rules.values()):
            self.access_tokens = _tokens(settings.oauth, loop, wheel, clock, ports)
        self._limits = AuthenticationLimits(
            frame_bytes_max=min(section.server_max_receive_bytes, settings.network.max_frame_bytes),
            deadline_ms=section.authentication_timeout_ms,
            failure_delay_ms=section.failed_authentication_delay_ms,
        )
        self._workers = ports.make_offload(loop, 1, "hutong-password", _CHECKS_MAX)
        self._waits = AuthenticationWaits(
            deadlines=WaitTable("authentications", wheel, _CONNECTIONS_MAX),
            delays=WaitTable("failed_authentications", wheel, _CONNECTIONS_MAX),
            sessions=WaitTable("authenticated_sessions", wheel, _CONNECTIONS_MAX),
            checks=WaitTable("password_checks", wheel, _CHECKS_MAX),
            turns=WaitTable("slowed_guesses", wheel, _CONNECTIONS_MAX),
        )
        self._guesses = Guesses(section.guess_delay_max_ms)

    @property
    def waits(self) -> Mapping[str, WaitTable[Any]]:
        """By name, for the page of metrics."""
        waits = self._waits
        tables: tuple[WaitTable[Any], ...] = (waits.deadlines, waits.delays, waits.sessions, waits.checks, waits.turns)
        if self.access_tokens is not None:
            tables = (*tables, self.access_tokens.waits)
        return {table.name: table for table in tables}

    def before(self, dispatch: Dispatch) -> Handler:
        """Wrap `dispatch` in the handler that authenticates connections first.

        Raises UsageError where passwords would travel without TLS and no setting allows it.
        """
        listener = dispatch.listener
        if not (listener.protocol.has_tls or self._allow_without_tls):
            raise UsageError(
                f"The listener {listener.name} has no TLS, so an eavesdropper learns passwords, or enough to guess "
                "them; make it SASL_SSL, or set sasl.allow_without_tls=true.",
                ExitCode.CONFIG,
            )
        return Authentication(
            dispatch,
            self._rules[listener.name],
            self._users.password_check,
            workers=self._workers,
            waits=self._waits,
            limits=self._limits,
            clock=self._clock,
            figures=self.figures,
            guesses=self._guesses,
            tokens=self.access_tokens,
        )

    def web_users(self, loop: asyncio.AbstractEventLoop, random_bytes: Callable[[int], bytes]) -> "WebUsers":
        """Return the admission of HTTP's requests by these users."""
        from hutong.server.listeners.web_users import PasswordChecks, WebUsers  # late: few nodes serve HTTP to users

        waits = self._waits
        checks = PasswordChecks(self._users, self._workers, waits.turns, self._guesses, self.figures, self._clock)
        return WebUsers(checks, loop.create_future, random_bytes)

    def watch(self, configs: NodeConfigs) -> None:
        """Go by `connections.max.reauth.ms` as clients change it."""
        name = "connections.max.reauth.ms"
        started_with = {} if not self._session_ms else {name: str(self._session_ms)}
        meaning = "How long an authentication counts; 0: for the connection's life."
        configs.add([ConfigKey(name, ConfigType.LONG, "0", whole(0, INT64_MAX), meaning)], started_with)

        def changed() -> None:
            for rules in self._rules.values():
                rules.session_ms = int(configs.value(name))

        configs.on_change.append(changed)
        changed()

    def close(self) -> None:
        """End the threads."""
        self._workers.close()
        if self.access_tokens is not None:
            self.access_tokens.close()


def _tokens(
    settings: OauthSettings, loop: asyncio.AbstractEventLoop, wheel: TimerWheel, clock: Clock, ports: SystemPorts
) -> "OauthTokens":
    """Check access tokens from now on. Raises UsageError."""
    try:
        # Late: few nodes need them, and what they need is an extra.
        from hutong.security.oauth.tokens import TokenRules
        from hutong.server.listeners.oauth.sources import source_of
        from hutong.server.listeners.oauth.tokens import OauthTokens
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("hutong"):
            raise
        raise UsageError(
            "OAUTHBEARER needs more packages; install them with: pip install 'hutong[oauth]'.", ExitCode.UNAVAILABLE
        ) from None
    if not settings.audience:
        _log.warning("oauth.audience is not set: tokens that the provider issued for other services log in here, too.")
    tokens = OauthTokens(
        source_of(settings, clock.monotonic_ms),
        TokenRules(
            issuer=settings.issuer,
            audience=settings.audience,
            scope=settings.scope,
            principal_claim=settings.principal_claim,
            scope_claim=settings.scope_claim,
            clock_skew_ms=settings.clock_skew_ms,
        ),
        refresh_interval_ms=settings.jwks_refresh_interval_ms,
        unknown_key_interval_ms=settings.jwks_unknown_key_interval_ms,
        loop=loop,
        wheel=wheel,
        clock=clock,
        worker=ports.make_offload(loop, 1, "hutong-token-keys"),
    )
    tokens.start()
    return tokens


def _exchanges(
    users: ScramUsers, tokens: Tokens | None, random_bytes: Callable[[int], bytes], scope: str
) -> dict[str, Callable[[], Exchange]]:
    known: dict[str, Callable[[], Exchange]] = {
        plain.NAME: plain.PlainExchange,
        OAUTHBEARER: partial(_oauth, scope),
    }
    for name, mechanism in MECHANISM_NAMES.items():
        known[name] = partial(_scram, mechanism, users, tokens, random_bytes)
    return known


def _oauth(scope: str) -> Exchange:
    from hutong.security.sasl.oauth import OauthExchange  # late: few nodes take access tokens

    return OauthExchange(scope)


def _lookup(tokens: DelegationTokens, clock: Clock) -> Tokens | None:
    """The delegation tokens of this moment, where there are any."""
    if not tokens.are_offered:
        return None
    return lambda token_id, mechanism: tokens.credential(token_id, mechanism, clock.wall_ms())


def _scram(
    mechanism: Mechanism, users: ScramUsers, tokens: Tokens | None, random_bytes: Callable[[int], bytes]
) -> ScramExchange:
    return ScramExchange(mechanism, users, base64.urlsafe_b64encode(random_bytes(_NONCE_BYTES)).decode(), tokens)
