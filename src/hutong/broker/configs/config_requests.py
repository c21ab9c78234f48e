"""A request that changes the settings of several resources: each by itself, each named once (KIP-133, KIP-339).

Knows nothing of what a change is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from hutong.broker.configs.config_changes import check_configs
from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, put_error
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation, Pending
from hutong.security.acls import Operation
from hutong.wire.kafka.error_codes import ErrorCode

NAMED_ONCE: Final = "A request names a resource once."


class Resource(Protocol):
    """One whose settings are to change."""

    resource_type: int
    resource_name: str


class Response(Protocol):
    """An answer with a result for each."""

    responses: Any


ResourceT = TypeVar("ResourceT", bound=Resource)
ResponseT = TypeVar("ResponseT", bound=Response)


def alter_each(
    resources: Sequence[ResourceT],
    response: ResponseT,
    make_result: Callable[..., Any],
    alter: Callable[[ResourceT, Continuation[None]], None],
    context: RequestContext[AdminParts],
) -> ResponseT | Pending[ResponseT]:
    """Have `alter` change each resource that the client may. It calls back once that is durable, or raises Refused."""
    pending = PendingInParts(response)
    named = Counter((asked.resource_type, asked.resource_name) for asked in resources)

    def settle(result: Any, outcome: HutongError | None) -> None:
        if outcome is not None:
            put_error(result, outcome)
        pending.settle_part()

    for asked in resources:
        kind, name = asked.resource_type, asked.resource_name
        result = make_result(error_message=None, resource_type=kind, resource_name=name)
        response.responses.append(result)
        pending.expect_part()
        try:
            if named[kind, name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, NAMED_ONCE)
            check_configs(context, Operation.ALTER_CONFIGS, kind, name)
            alter(asked, partial(settle, result))
        except Refused as refused:
            settle(result, refused)
    return pending.answer()
