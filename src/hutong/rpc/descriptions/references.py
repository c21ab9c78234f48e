"""References in signatures: the places of an argument or a result where a service may be passed.

Strategy: a place with services has two types. The signature's has the Protocols, and is what people see. The type on
the wire has text in their place: the addresses at which the passed objects answer. msgspec converts the second one; a
shape, made once from the annotation, exchanges objects and addresses.

A reference is passed by itself, with None, as an item of a list or tuple, or as a value of a dict, nested as one
likes. Anywhere else it would need hooks in msgspec on both sides, so it is refused at the declaration.

Pure: knows services only by a function that recognizes them.
"""

import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

REFERENCES_PER_CALL_MAX: Final = 1_000
"""References in the arguments or in the result of one call."""
_UNGUESSABLE: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

Exchange = Callable[[type, Any], Any]
"""Called with the Protocol and the object, or the address; returns the other one."""
IsService = Callable[[object], bool]


class WrongReference(ValueError):
    """A value that does not have the shape, or an address that is none. The text continues a sentence."""


@dataclass(frozen=True, slots=True)
class ReferenceShape:
    """One place, itself a reference or a container. `wire` is the type that msgspec converts."""

    wire: Any

    def exchanged(self, value: Any, exchange: Exchange) -> Any:
        """The value with each reference exchanged. Raises WrongReference, and what `exchange` raises."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Reference(ReferenceShape):
    protocol: type

    def exchanged(self, value: Any, exchange: Exchange) -> Any:
        return exchange(self.protocol, value)


@dataclass(frozen=True, slots=True)
class _Optional(ReferenceShape):
    inner: ReferenceShape

    def exchanged(self, value: Any, exchange: Exchange) -> Any:
        return None if value is None else self.inner.exchanged(value, exchange)


@dataclass(frozen=True, slots=True)
class _Items(ReferenceShape):
    """A list, or a tuple of any length. JSON knows no tuples, so either is taken for the other."""

    inner: ReferenceShape
    make: Callable[[Iterator[Any]], Any]

    def exchanged(self, value: Any, exchange: Exchange) -> Any:
        if not isinstance(value, list | tuple):
            raise WrongReference(f"a list is promised, and it is a {type(value).__name__}")
        return self.make(self.inner.exchanged(item, exchange) for item in value)


@dataclass(frozen=True, slots=True)
class _Values(ReferenceShape):
    inner: ReferenceShape

    def exchanged(self, value: Any, exchange: Exchange) -> Any:
        if not isinstance(value, dict):
            raise WrongReference(f"a dict is promised, and it is a {type(value).__name__}")
        return {key: self.inner.exchanged(item, exchange) for key, item in value.items()}


def shape_of(kind: Any, is_service: IsService) -> ReferenceShape | None:
    """The shape of an annotation. None where it has no reference, or has one where none can be."""
    if is_service(kind):
        return _Reference(str, kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return shape_of(arguments[0], is_service)
    if origin is Union or origin is types.UnionType:
        return _optional(arguments, is_service)
    # `Sequence` and `Mapping` take a list of implementations where type checkers refuse one as list of the Protocol.
    if origin is list or origin is Sequence:
        inner = shape_of(arguments[0], is_service)
        return None if inner is None else _Items(list[inner.wire], inner, list)  # type: ignore[name-defined]
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        inner = shape_of(arguments[0], is_service)
        return None if inner is None else _Items(tuple[inner.wire, ...], inner, tuple)  # type: ignore[name-defined]
    # A key is compared and hashed by value, which a reference does not have on the wire.
    if (origin is dict or origin is Mapping) and not mentions_service(arguments[0], is_service):
        inner = shape_of(arguments[1], is_service)
        wire = dict.__class_getitem__((arguments[0], None if inner is None else inner.wire))
        return None if inner is None else _Values(wire, inner)
    return None


def _optional(arguments: tuple[Any, ...], is_service: IsService) -> ReferenceShape | None:
    others = [one for one in arguments if one is not type(None)]
    # An address is text like any other text, so of two types no one could tell which it is.
    if len(others) != 1:
        return None
    inner = shape_of(others[0], is_service)
    return None if inner is None else _Optional(inner.wire | None, inner)


def mentions_service(kind: Any, is_service: IsService) -> bool:
    """Return True if the annotation has a service anywhere in its arguments."""
    return is_service(kind) or any(mentions_service(one, is_service) for one in get_args(kind))


def is_unguessable(address: Any) -> bool:
    """Return True for the address of a reference, and False for that of an ordinary service."""
    return type(address) is str and _UNGUESSABLE.fullmatch(address) is not None


def checked_address(address: Any) -> str:
    """The address of a reference that a peer sent. Raises WrongReference.

    Only what cannot be guessed is taken: with the name of an ordinary service a caller could have the callee call that
    one in its place, with the callee's rights.
    """
    if not is_unguessable(address):
        raise WrongReference("that is no reference")
    return cast("str", address)


class Counted:
    """An exchange that refuses more than REFERENCES_PER_CALL_MAX."""

    __slots__ = ("_exchange", "_left")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._left = REFERENCES_PER_CALL_MAX

    def __call__(self, protocol: type, value: Any) -> Any:
        if not self._left:
            raise WrongReference(f"references_per_call_max is {REFERENCES_PER_CALL_MAX}, and there are more")
        self._left -= 1
        return self._exchange(protocol, value)
