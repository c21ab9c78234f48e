"""Interceptors: functions that see a call before it is executed, and refuse it by raising.

Strategy: three phases, as in Vert.x: authentication, authorization, and an application's own. Their order is checked
when a service is bound.

Knows no transport: it sees the call's headers, its peer and its encoded arguments.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from inspect import isawaitable
from itertools import pairwise
from typing import Any, Final

from hutong.foundation.errors import UsageError
from hutong.rpc.call import AUTH_TOKEN, IncomingCall
from hutong.rpc.errors import NotAuthenticated, NotAuthorized

INTERCEPTORS_MAX: Final = 64  # of one binding


class Phase(IntEnum):
    """The phases of interceptors, in order."""

    AUTHENTICATION = 0
    AUTHORIZATION = 1
    USER = 2


@dataclass(frozen=True, slots=True)
class Interceptor:
    """`function(call)` (awaited, if it can be) lets the call go on by returning; what it raises is the call's failure.

    A ServiceError travels as it is (NotAuthenticated 401, NotAuthorized 403); anything else is 500. With `actions` it
    is asked about these methods alone.
    """

    function: Callable[[IncomingCall], object]
    phase: Phase = Phase.USER
    actions: frozenset[str] | None = None


def interceptor(
    function: Callable[[IncomingCall], object], *, phase: Phase = Phase.USER, actions: Collection[str] | None = None
) -> Interceptor:
    """An interceptor of any phase."""
    if isinstance(actions, str):
        raise UsageError(f"actions of an interceptor are a collection of names: [{actions!r}].")
    return Interceptor(function, phase, None if actions is None else frozenset(actions))


def authentication(
    verify: Callable[[str], object], *, actions: Collection[str] | None = None, header: str = AUTH_TOKEN
) -> Interceptor:
    """Authenticate: `verify(token)`, awaited if it is a coroutine, returns `call.user`, or None for an unknown token.

    Calls without the header, or with an unknown token, fail with NotAuthenticated (401).
    """

    async def check(call: IncomingCall) -> None:
        token = call.headers.get(header)
        if not token:
            raise NotAuthenticated(f"a call of {call.action!r} needs the header {header!r}")
        user = verify(token)
        call.user = await user if isawaitable(user) else user
        if call.user is None:
            raise NotAuthenticated("the token is not valid")

    return interceptor(check, phase=Phase.AUTHENTICATION, actions=actions)


def authorization(
    may: Callable[[IncomingCall], bool | Awaitable[bool]], *, actions: Collection[str] | None = None
) -> Interceptor:
    """Authorize: `may(call)`, awaited if it is a coroutine, returns True; else the call fails with 403."""

    async def check(call: IncomingCall) -> None:
        answer: Any = may(call)
        if isawaitable(answer):
            answer = await answer
        if not answer:
            raise NotAuthorized(f"the caller may not call {call.action!r}")

    return interceptor(check, phase=Phase.AUTHORIZATION, actions=actions)


def chain_of(
    given: Sequence[Interceptor | Callable[[IncomingCall], object]], known: Collection[str]
) -> tuple[Interceptor, ...]:
    """As they were given, functions alone in the last phase. Raises UsageError for what makes no sense."""
    chain = tuple([one if isinstance(one, Interceptor) else Interceptor(one) for one in given])
    if len(chain) > INTERCEPTORS_MAX:
        raise UsageError(f"a service has at most {INTERCEPTORS_MAX} interceptors, not {len(chain)}.")
    for before, after in pairwise(chain):
        if after.phase < before.phase:
            raise UsageError(
                f"an interceptor of {after.phase.name} comes after one of {before.phase.name}: put it first."
            )
    for one in chain:
        if not callable(one.function):
            raise UsageError(
                f"an interceptor is a function of the call; {type(one.function).__name__} is not callable."
            )
        if unknown := sorted((one.actions or frozenset()) - set(known)):
            raise UsageError(f"an interceptor is for the action {unknown[0]!r}, which the service has not.")
    return chain
