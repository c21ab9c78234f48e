"""Requests that change when a delegation token ends: the answer comes once the change is durable (KIP-48).

Knows no request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from hutong.broker.handling.responses import error_code_of
from hutong.broker.rights.token_rights import check_token_requests
from hutong.foundation.errors import Refused
from hutong.foundation.waiting.pending import Pending

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.handling.context import RequestContext
    from hutong.foundation.errors import HutongError
    from hutong.foundation.waiting.pending import Continuation

NEVER: Final = -1
ResponseT = TypeVar("ResponseT")


def answer_with_expiry(
    context: RequestContext[Any], response: ResponseT, change: Callable[[Continuation[None]], int]
) -> ResponseT | Pending[ResponseT]:
    """Fill `expiry_timestamp_ms` with what `change` returns, or the code of its refusal."""
    pending: Pending[ResponseT] = Pending()
    filled: Any = response

    def written(outcome: HutongError | None) -> None:
        if outcome is not None:
            filled.error_code, filled.expiry_timestamp_ms = error_code_of(outcome), NEVER
        pending.complete(response)

    try:
        check_token_requests(context)
        filled.expiry_timestamp_ms = change(written)
    except Refused as refused:
        filled.error_code = refused.code
        return response
    return pending
