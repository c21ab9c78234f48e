"""Settings of the bridges, translated. Apart from `translate`, because most nodes have no bridge and need not load it.

Strategy: `bridge_of` makes a bridge of either kind. A user's own authenticator and event hook are found by their names
in the settings, or given by the program that the node is in.
"""

import dataclasses
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hutong.bus.bridge.bridge import Bridge
from hutong.bus.bridge.hooks import Authenticator, EventHook
from hutong.bus.bridge.limits import BridgeLimits, default_limits
from hutong.bus.bridge.permissions import Permissions, Permit
from hutong.bus.bus import EventBus
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, UsageError
from hutong.foundation.timers import TimerWheel
from hutong.reactor.limits import ReactorLimits
from hutong.runtime.contexts.contexts import Context
from hutong.server.configuration.settings import Settings
from hutong.server.configuration.translate import reactor_limits
from hutong.wire.vertx.codes import Dialect


@dataclass(frozen=True, slots=True)
class BridgeHooks:
    """A user's own code in the bridges; each that is given takes the place of the one that the settings name."""

    authenticator: Authenticator | None = None
    event_hook: EventHook | None = None


def bridge_of(
    settings: Settings,
    dialect: Dialect,
    bus: EventBus,
    context: Context,
    clock: Clock,
    wheel: TimerWheel,
    hooks: BridgeHooks | None = None,
) -> Bridge:
    """A bridge as the settings have it. Raises UsageError for what is wrong with them."""
    section = settings.bridge
    hooks = hooks or BridgeHooks()
    return Bridge(
        bus,
        context,
        dialect,
        permissions_of(settings),
        clock=clock,
        wheel=wheel,
        limits=limits_of(settings, dialect),
        authenticator=hooks.authenticator or _named("authenticator", section.authenticator),
        hook=hooks.event_hook or _named("event_hook", section.event_hook),
    )


def permissions_of(settings: Settings) -> Permissions:
    """Raises UsageError for an expression that is wrong or could take long, LimitExceeded for too many of them."""
    section = settings.bridge
    return Permissions(
        _permits(section.permit_in, section.permit_in_addresses),
        _permits(section.permit_out, section.permit_out_addresses),
    )


def _permits(patterns: tuple[str, ...], addresses: tuple[str, ...]) -> list[Permit]:
    return [*(Permit(regex=pattern) for pattern in patterns), *(Permit(address) for address in addresses)]


def limits_of(settings: Settings, dialect: Dialect) -> BridgeLimits:
    """Bounds of each client."""
    section = settings.bridge
    return dataclasses.replace(
        default_limits(dialect),
        address_characters_max=section.max_address_characters,
        handlers_max=section.max_registrations,
        requests_open_max=section.max_open_requests,
        replies_owed_max=section.max_owed_replies,
        reply_timeout_ms=section.reply_timeout_ms,
        buffered_messages_max=section.max_buffered_messages,
        unsent_bytes_max=section.max_unsent_bytes,
        slow_client_ms_max=section.slow_client_timeout_ms,
        frame_bytes_max=section.max_frame_bytes,
    )


def connection_limits_of(settings: Settings) -> ReactorLimits:
    """Bounds of the connections of one bridge, which are counted apart from those of Kafka clients."""
    section = settings.bridge
    return dataclasses.replace(
        reactor_limits(settings),
        frame_bytes_max=section.max_frame_bytes,
        unsent_bytes_max=section.max_unsent_bytes,
        idle_ms_max=section.connections_max_idle_ms,
    )


def _named(setting: str, name: str) -> Callable[..., Any] | None:
    """The function that a setting names as `package.module:function`, None for an empty name."""
    if not name:
        return None
    module, colon, function = name.partition(":")
    if not colon or not module or not function:
        raise _unusable(setting, name, "write package.module:function")
    try:
        found: object = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise _unusable(setting, name, str(error)) from None
    if not callable(found):
        raise _unusable(setting, name, f"there is no function {function} in {module}")
    return found


def _unusable(setting: str, name: str, reason: str) -> UsageError:
    return UsageError(f"bridge.{setting} is {name!r}: {reason}.", ExitCode.CONFIG)
