"""Signatures of handlers: which parameter is the message, which its circumstances, and what comes back.

Strategy: annotations are read once, when the handler is declared, so that a wrong one ends the program at its start.
The same rules hold for topics and for addresses of the bus.

Knows no topics and no models.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from hutong.foundation.errors import UsageError
from hutong.handlers.declare.context import MessageContext


@dataclass(frozen=True, slots=True)
class HandlerSignature:
    """A handler's parameters. `places` has True for each MessageContext and False for the message, in order.

    `model` is the type of one message, also where the handler takes batches. `returned` is None where nothing is said.
    """

    function: Callable[..., Any]
    name: str
    model: Any
    places: tuple[bool, ...]
    returned: Any
    is_async: bool

    def arguments(self, message: Any, context: Callable[[], Any]) -> tuple[Any, ...]:
        return tuple([context() if is_context else message for is_context in self.places])


def read_signature(function: Any, *, is_batch: bool = False) -> HandlerSignature:
    """Raises UsageError for a function that cannot be a handler."""
    name = getattr(function, "__name__", None)
    if name is None or not callable(function) or isinstance(function, type):
        raise UsageError(f"A handler is a function, not {function!r}.")
    try:
        hints = get_type_hints(function)
    except NameError as error:
        raise UsageError(f"{name}: an annotation names {error.name!r}, which its module does not have.") from None
    context = list[MessageContext] if is_batch else MessageContext
    places, models = [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UsageError(f"{name}: a handler's parameters are plain ones; {parameter} is not.")
        annotation = hints.get(parameter.name, Any)
        places.append(annotation == context)
        if annotation == context:
            continue
        if annotation in (MessageContext, list[MessageContext]):
            wanted = "list[MessageContext]" if is_batch else "MessageContext"
            raise UsageError(f"{name}: annotate {parameter.name} with {wanted}: batch= makes the difference.")
        models.append((parameter.name, annotation))
    if len(models) > 1:
        raise UsageError(
            f"{name} takes {' and '.join(name for name, _ in models)}: a handler takes one message; annotate what else "
            "it needs with MessageContext."
        )
    model = models[0][1] if models else Any
    if is_batch and models:
        model = _of_batch(name, *models[0])
    is_async = inspect.iscoroutinefunction(function)
    returned = hints.get("return")
    return HandlerSignature(function, name, model, tuple(places), _plain(returned), is_async)


def _of_batch(name: str, parameter: str, annotation: Any) -> Any:
    if annotation is Any or annotation is list:
        return Any
    if get_origin(annotation) is not list:
        raise UsageError(f"{name} takes batches: annotate {parameter} with list[...], as in list[Order].")
    return get_args(annotation)[0]


def _plain(returned: Any) -> Any:
    return None if returned is type(None) else returned
