"""Mistakes in the handlers that a program composes, found before the first value passes.

Knows nothing of connections.
"""

from collections.abc import Sequence
from inspect import iscoroutinefunction
from typing import Final
from weakref import WeakSet

_METHODS: Final = ("inbound", "outbound", "event", "failed", "closing", "timer", "removed", "resume")
_checked: Final[WeakSet[type]] = WeakSet()


def check_handlers(handlers: object, base: type) -> None:
    """Raise TypeError for what is no list."""
    # The usual slip of a program that has a single handler.
    if isinstance(handlers, base):
        raise TypeError(f"a pipeline is a list of handlers: write [{type(handlers).__name__}(...)]")
    # A function without `return`, for one.
    if not isinstance(handlers, Sequence):
        raise TypeError(f"a pipeline is a list of handlers, not {handlers!r}")


def check_handler(handler: object, base: type) -> None:
    """Raise TypeError for what is no handler, or has coroutine functions as methods."""
    # Else the first value would fail in the middle of the pipeline, with an error about its methods.
    if not isinstance(handler, base):
        hint = f"give an object of it, {handler.__name__}()" if isinstance(handler, type) else "derive its class"
        raise TypeError(f"{handler!r} is no PipelineHandler: {hint}")
    kind = type(handler)
    # Once for each class: every connection has new handlers of the same ones.
    if kind in _checked:
        return
    for name in _METHODS:
        # Nobody would await it: the connection would hang, with a warning at most.
        if iscoroutinefunction(getattr(kind, name)):
            hint = "hold the pipeline, and answer from a task of its own (docs/reactor-handlers.md)"
            raise TypeError(f"{kind.__name__}.{name} is a coroutine function: {hint}")
    _checked.add(kind)
