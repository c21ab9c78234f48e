"""Implementations: checks that an object implements a Protocol, and calls its methods.

Knows no calls.
"""

import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from hutong.foundation.errors import UsageError
from hutong.rpc.descriptions.description import MethodDescription, ResultKind, ServiceDescription

Invoke = Callable[[msgspec.Struct], Any]
"""Calls a method with its arguments: gives a coroutine, an iterator, or (in a worker) a value."""


class Invocation(NamedTuple):
    """The way to call a method of an implementation; `is_plain` if the call itself does the work."""

    invoke: Invoke
    is_plain: bool


def invocations(description: ServiceDescription, implementation: object, *, may_block: bool) -> dict[str, Invocation]:
    """Return the invocation of each method. Raises UsageError if one is missing, or has another signature."""
    return {
        method.name: _invocation(description, method, implementation, may_block=may_block)
        for method in description.methods.values()
    }


class _Checked(NamedTuple):
    """The facts of a function that fits a method, the same for all objects of its class."""

    has_order: bool
    is_asynchronous: bool
    is_plain: bool


_checked: "WeakKeyDictionary[FunctionType, dict[type[msgspec.Struct], _Checked]]" = WeakKeyDictionary()
"""By the function of a class, and the arguments of a method that it fits. A callback is often a new object each time,
and its call over the bus took 257 us of CPU time while each object was inspected, 196 us since."""


def _invocation(
    description: ServiceDescription, method: MethodDescription, implementation: object, *, may_block: bool
) -> Invocation:
    function = getattr(implementation, method.name, None)
    # Other callables, such as mocks, may differ from object to object.
    shared = getattr(function, "__func__", None) if type(function) is MethodType else None
    known = _checked.get(shared, {}).get(method.arguments_type) if type(shared) is FunctionType else None
    if known is None:
        known = _check(description, method, implementation, function)
        if type(shared) is FunctionType:
            _checked.setdefault(shared, {})[method.arguments_type] = known
    assert function is not None
    if not known.is_asynchronous and not may_block and method.kind is not ResultKind.STREAM:
        where = f"{type(implementation).__qualname__}.{method.name}"
        raise UsageError(
            f"{where} is not async: declare it by async def, or bind it in a worker context, where it may block."
        )
    return Invocation(_invoke_by_position(function) if known.has_order else _invoke_by_name(function), known.is_plain)


def _check(
    description: ServiceDescription, method: MethodDescription, implementation: object, function: Any
) -> _Checked:
    """Raises UsageError if the function is missing, or has another signature."""
    where = f"{type(implementation).__qualname__}.{method.name}"
    if not callable(function):
        raise UsageError(f"{where} is missing, and {description.name} promises it: {method.signature}.")
    names = [parameter.name for parameter in method.parameters]
    if (wrong := _mismatch(function, names)) is not None:
        # The usual slip: its methods want an object first.
        if isinstance(implementation, type):
            name = implementation.__qualname__
            raise UsageError(f"{name} is a class: give an object of it, {name}().")
        raise UsageError(f"{where} {wrong}; {description.name} promises {method.signature}.")
    is_plain = not inspect.iscoroutinefunction(function) and not inspect.isasyncgenfunction(function)
    return _Checked(_has_order(function, method), _is_asynchronous(function), is_plain)


def _mismatch(function: Callable[..., Any], names: list[str]) -> str | None:
    try:
        inspect.signature(function).bind(**dict.fromkeys(names))
    except TypeError as error:
        return f"cannot be called by the names of its parameters ({error})"
    except ValueError:  # a builtin without a signature
        return None
    return None


def _is_asynchronous(function: Callable[..., Any]) -> bool:
    return (
        inspect.iscoroutinefunction(function)
        or bool(getattr(function, "__hutong_call__", None))
        or _is_double(function)
    )


def _is_double(function: Callable[..., Any]) -> bool:
    """An object whose call is asynchronous: a test's AsyncMock, or an instance with an async `__call__`."""
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _has_order(function: Callable[..., Any], method: MethodDescription) -> bool:
    """Return True if the arguments may be passed by position, which costs less."""
    if any(parameter.is_keyword_only for parameter in method.parameters):
        return False
    try:
        own = list(inspect.signature(function).parameters.values())
    except ValueError:
        return False
    wanted = [parameter.name for parameter in method.parameters]
    return [parameter.name for parameter in own if parameter.kind is parameter.POSITIONAL_OR_KEYWORD][
        : len(wanted)
    ] == wanted


def _invoke_by_position(function: Callable[..., Any]) -> Invoke:
    values = msgspec.structs.astuple
    return lambda arguments: function(*values(arguments))


def _invoke_by_name(function: Callable[..., Any]) -> Invoke:
    values = msgspec.structs.asdict
    return lambda arguments: function(**values(arguments))
