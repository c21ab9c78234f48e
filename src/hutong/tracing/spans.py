"""One span with its measurements: begun, perhaps current for a while, and ended once, however it ends.

Knows neither bus nor calls.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer, set_span_in_context

from hutong.foundation.clock import Clock
from hutong.tracing.ended import keep_ended
from hutong.tracing.instruments import Attributes, Measure
from hutong.tracing.kept import KeptSpans
from hutong.tracing.names import ERROR_TYPE

STATUS_CHARACTERS_MAX: Final = 256
Failure = Callable[[], BaseException | None]
_NONE: Final[Failure] = lambda: None  # noqa: E731


class TracedOperation:
    """A span under way; its seconds are measured when it has ended. `end` may be called more than once."""

    __slots__ = ("_begun_us", "_is_over", "_kept", "_measure", "_measured", "_now_us", "span")

    def __init__(
        self, span: Span, measure: Measure, measured: Attributes, now_us: Callable[[], int], kept: KeptSpans
    ) -> None:
        self.span = span
        self._kept = kept
        self._measure = measure
        self._measured = measured
        self._now_us = now_us
        self._is_over = False
        self._begun_us = now_us()

    @property
    def context(self) -> Context:
        """The current context, with this span in it."""
        return set_span_in_context(self.span)

    def end(self, error: BaseException | None = None, error_type: str | None = None) -> None:
        """It is over; with an error or its type, badly."""
        # An answer and a failure may both end it.
        if self._is_over:
            return
        self._is_over = True
        measured = self._measured
        if error is not None or error_type is not None:
            kind = error_type or type(error).__qualname__
            measured = {**measured, ERROR_TYPE: kind}
            # Text of errors costs nothing for spans that the sampler leaves out.
            if self.span.is_recording():
                self.span.set_attribute(ERROR_TYPE, kind)
                self.span.set_status(StatusCode.ERROR, None if error is None else str(error)[:STATUS_CHARACTERS_MAX])
        self.span.end()
        keep_ended(self.span, self._kept)
        self._measure((self._now_us() - self._begun_us) / 1e6, measured)

    def during(self, function: Callable[[Any], object], argument: Any, failure: Failure = _NONE) -> object:
        """Call the function with the span as the current one, and end it with the function, or with its coroutine.

        What is raised is a failure, and so is an error that `failure()` then returns.
        """
        context = self.context
        token = attach(context)
        try:
            result = function(argument)
        except BaseException as error:
            self.end(error)
            raise
        finally:
            detach(token)
        # The function has only made the coroutine: its work comes later, so the span ends later.
        if asyncio.iscoroutine(result):
            return self._over(result, context, failure)
        self.end(failure())
        return result

    async def _over(self, coroutine: Awaitable[object], context: Context, failure: Failure) -> object:
        """The span is current for the rest of the task that drives this, which has variables of its own."""
        attach(context)
        try:
            result = await coroutine
        except BaseException as error:
            self.end(error)
            raise
        self.end(failure())
        return result


class TracedOperations:
    """Begins them, by one tracer and one clock."""

    def __init__(self, tracer: Tracer, clock: Clock, kept: KeptSpans) -> None:
        """`kept` gets each that has ended."""
        self._tracer = tracer
        self._kept = kept
        self._now_us = clock.monotonic_us

    def begin_operation(
        self,
        kind: SpanKind,
        name: str,
        attributes: Attributes,
        measure: Measure,
        measured: Attributes,
        *,
        parent: Context | None = None,
        links: Sequence[Link] = (),
    ) -> TracedOperation:
        """Its span has `attributes`, what is measured of it `measured`. Without a parent it is the current span's."""
        span = self._tracer.start_span(name, parent, kind, dict(attributes), links)
        return TracedOperation(span, measure, measured, self._now_us, self._kept)
