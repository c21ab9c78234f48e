"""Produce and Fetch requests as spans, which `hutong.tracing` records.

Strategy: where there is a tracer, the handlers of these two are wrapped when a route to them is made, so a node without
one does not even ask. A traced Produce never takes the fast path.

Knows nothing of OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from hutong.broker.handling.context import RequestContext
from hutong.foundation.waiting.pending import Pending
from hutong.reactor.connections.channel import Held

Ended = Callable[[Any], None]
"""Told of the answer once it is there: None where none is due."""


class RequestTracer(Protocol):
    """Begins the span of one request. A request whose client leaves has no answer, and its span no end."""

    def begin_request(self, api_key: int, request: Any, context: RequestContext[Any]) -> Ended: ...


def traced(
    api_key: int, handle: Callable[[Any, RequestContext[Any]], Any], tracer: RequestTracer
) -> Callable[[Any, RequestContext[Any]], Any]:
    """The handler, with a span around each request."""

    def handled(request: Any, context: RequestContext[Any]) -> Any:
        ended = tracer.begin_request(api_key, request, context)
        answer = handle(request, context)
        if isinstance(answer, Held):  # it is handled anew later, with a span of its own
            return answer
        if not isinstance(answer, Pending):
            ended(answer)
            return answer
        pending: Pending[Any] = Pending()

        def completed(response: Any) -> None:
            ended(response)
            pending.complete(response)

        answer.then(completed)
        return pending

    return handled
