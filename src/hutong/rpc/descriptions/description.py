"""Descriptions of services, read from a Protocol's signatures when it is declared.

Strategy: for each method a struct of its arguments is made, so that msgspec does all conversion: of names, of missing
and additional ones, of types. Types that cannot be encoded are refused here, in a sentence, instead of at the first
call.

Pure: knows no event loop, no transport and no implementation.
"""

import functools
import inspect
import types
import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from hutong.foundation.errors import UsageError
from hutong.rpc.descriptions.encodable import encoding_problem
from hutong.rpc.descriptions.references import ReferenceShape, mentions_service, shape_of
from hutong.rpc.errors import CODE_MAX, CODE_MIN, FAULT_CODE, RESERVED_CODES, ServiceError

T = TypeVar("T")
METHODS_MAX: Final = 1_000  # of one service
PARAMETERS_MAX: Final = 255  # of one method
IS_BASE: Final = "__hutong_is_base__"  # of a Protocol whose methods are no actions
_DESCRIPTION: Final = "__hutong_service__"
_CLOSES: Final = "__hutong_closes__"
_STREAMS: Final = (AsyncIterator, AsyncIterable, AsyncGenerator)
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ResultKind(Enum):
    """Kinds of results of a method."""

    UNARY = "unary"  # one value
    STREAM = "stream"  # any number of values, as the caller asks for them
    REFERENCE = "reference"  # another service, for this caller
    REFERENCES = "references"  # None or a service, or several: in a list, tuple or dict


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `default` is msgspec.NODEFAULT where there must be an argument."""

    name: str
    type: Any
    default: Any = msgspec.NODEFAULT
    is_keyword_only: bool = False
    shape: ReferenceShape | None = None  # where services are passed

    @property
    def wire_type(self) -> Any:
        return self.type if self.shape is None else self.shape.wire

    @property
    def is_required(self) -> bool:
        return self.default is msgspec.NODEFAULT


@dataclass(frozen=True)
class MethodDescription:
    """One method.

    `result_type` is the signature's: for a stream its item, for a reference the Protocol; None for a method that
    returns nothing. `arguments_type` is a struct with the parameters as its fields, made like the method is called; a
    parameter that is a reference has the type of its address there, and is in `references`.
    `is_awaited` is True for a method declared with `async def`: a stream may be either.
    """

    name: str
    parameters: tuple[Parameter, ...]
    arguments_type: type[msgspec.Struct]
    result_type: Any
    kind: ResultKind = ResultKind.UNARY
    closes: bool = False
    is_awaited: bool = True
    documentation: str = ""
    result_shape: ReferenceShape | None = None  # of several references
    references: tuple[Parameter, ...] = ()

    @property
    def has_references(self) -> bool:
        """True if services are among its arguments."""
        return bool(self.references)

    @property
    def wire_type(self) -> Any:
        """The type to which the answer is converted: the result; None for streams and a reference, which come later."""
        if self.result_shape is not None:
            return self.result_shape.wire
        return self.result_type if self.kind is ResultKind.UNARY else None

    @functools.cached_property
    def signature(self) -> str:
        """As it was declared, for people: `place(item: str, count: int = 1) -> UUID`."""
        parts: list[str] = []
        for parameter in self.parameters:
            if parameter.is_keyword_only and "*" not in parts:
                parts.append("*")
            default = "" if parameter.is_required else f" = {parameter.default!r}"
            parts.append(f"{parameter.name}: {type_name(parameter.type)}{default}")
        result = type_name(self.result_type)
        if self.kind is ResultKind.STREAM:
            result = f"AsyncIterator[{result}]"
        return f"{self.name}({', '.join(parts)}) -> {result}"


@dataclass(frozen=True)
class ServiceDescription:
    """One service: its default address and its methods."""

    address: str
    name: str
    protocol: type
    methods: dict[str, MethodDescription]
    errors: dict[int, type[ServiceError]] = field(default_factory=dict)
    version: str = ""
    documentation: str = ""


def service(address: str, *, errors: Iterable[type[ServiceError]] = (), version: str = "") -> Callable[[T], T]:
    """Declare a service: a decorator for a `typing.Protocol` of `async def`s.

    `errors` are the classes that the caller gets for their codes. Raises UsageError for what cannot be called from
    afar: see docs/rpc.md.
    """

    def declare(protocol: T) -> T:
        # Not `issubclass(protocol, Protocol)`: an implementation inherits from the Protocol, but is none itself.
        if not isinstance(protocol, type) or not getattr(protocol, "_is_protocol", False):
            raise UsageError(f"@service is for a class that inherits from typing.Protocol; {protocol!r} does not.")
        declaration = _Declaration(protocol, address, tuple(errors), version)
        found: ServiceDescription | _Declaration
        try:
            found = declaration.read()
        except _NotYetDefined:
            # Perhaps a service that is declared further down, which mentions this one: read at the first use.
            found = declaration
        setattr(protocol, _DESCRIPTION, found)
        return cast("T", protocol)

    if not isinstance(address, str) or not address:
        raise UsageError('@service takes the address of the service: @service("orders").')
    return declare


def closes(method: T) -> T:
    """Mark a method of a service that is returned as a reference: a call of it closes the reference."""
    setattr(method, _CLOSES, True)
    return method


def describe(protocol: object) -> ServiceDescription:
    """The description of a Protocol that is decorated with `@service`. Raises UsageError for anything else.

    Also for a name in an annotation that is not defined yet.
    """
    # `vars`, not `getattr`: a class that only inherits from a service has not been checked, and must be decorated
    # itself.
    found = vars(protocol).get(_DESCRIPTION) if isinstance(protocol, type) else None
    # Two threads may read it at once: their descriptions are the same.
    if isinstance(found, _Declaration):
        found = found.read()
        setattr(protocol, _DESCRIPTION, found)
    if not isinstance(found, ServiceDescription):
        name = getattr(protocol, "__qualname__", None) or repr(protocol)
        raise UsageError(f'{name} is no service: decorate its Protocol with @service("address").')
    return found


def is_service(kind: object) -> bool:
    return isinstance(kind, type) and _DESCRIPTION in vars(kind)


def type_name(kind: Any) -> str:
    """A type as one would write it."""
    # `get_type_hints` turns the None of an annotation into NoneType; people write None.
    if kind is None or kind is type(None):
        return "None"
    if isinstance(kind, type) and not get_args(kind):
        return kind.__qualname__
    return str(kind).replace("typing.", "").replace("collections.abc.", "")


class _NotYetDefined(UsageError):
    """An annotation has a name that nothing has where it is declared."""


@dataclass(frozen=True, slots=True)
class _Declaration:
    """The arguments of `@service`, for a description that is read later."""

    protocol: type
    address: str
    errors: tuple[type[ServiceError], ...]
    version: str

    def read(self) -> "ServiceDescription":
        """Raises UsageError; of its kind _NotYetDefined for a name that may come later."""
        return _read(self.protocol, self.address, self.errors, self.version)


def _read(protocol: type, address: str, errors: Iterable[type[ServiceError]], version: str) -> ServiceDescription:
    methods: dict[str, MethodDescription] = {}
    # Base Protocols first, so that a method of a derived one replaces theirs.
    for base in reversed(protocol.__mro__):
        # `IS_BASE` marks this project's own base classes, whose methods are local.
        if base.__module__ == "typing" or base is object or vars(base).get(IS_BASE):
            continue
        for name, function in vars(base).items():
            if not name.startswith("_"):
                methods[name] = _method(protocol, name, function)
        if unwritten := [name for name in vars(base).get("__annotations__", {}) if not name.startswith("_")]:
            raise UsageError(f"{protocol.__qualname__}.{unwritten[0]} is an attribute; a service has methods alone.")
    if not methods:
        raise UsageError(f"{protocol.__qualname__} has no methods: a service has at least one.")
    # Discovery describes all methods of a service in one answer, so their number has a bound.
    if len(methods) > METHODS_MAX:
        raise UsageError(f"{protocol.__qualname__} has {len(methods)} methods; a service has at most {METHODS_MAX}.")
    documentation = inspect.cleandoc(vars(protocol).get("__doc__") or "")
    declared = _by_code(protocol, errors)
    return ServiceDescription(address, protocol.__qualname__, protocol, methods, declared, version, documentation)


def _by_code(protocol: type, errors: Iterable[type[ServiceError]]) -> dict[int, type[ServiceError]]:
    declared: dict[int, type[ServiceError]] = {}
    for error in errors:
        where = f"errors of {protocol.__qualname__}"
        if not (isinstance(error, type) and issubclass(error, ServiceError)):
            raise UsageError(f"{where}: {error!r} is no subclass of hutong.rpc.ServiceError.")
        code = error.code
        # `type(...) is not int` also refuses bool. Codes travel as 32-bit failure codes of the bus, where -1 and the
        # reserved ones have a meaning.
        if type(code) is not int or not CODE_MIN <= code <= CODE_MAX or code == FAULT_CODE or code in RESERVED_CODES:
            raise UsageError(f"{where}: {error.__qualname__} needs a code of its own: 32 bits, and none of -99 to -1.")
        # A failure travels as its code alone, so the caller could not tell which class to raise.
        if code in declared:
            raise UsageError(
                f"{where}: {error.__qualname__} and {declared[code].__qualname__} have the same code {code}."
            )
        declared[code] = error
    return declared


def _method(protocol: type, name: str, function: object) -> MethodDescription:
    where = f"{protocol.__qualname__}.{name}"
    if not isinstance(function, types.FunctionType):
        raise UsageError(f"{where} is a {type(function).__name__}; a service has methods alone, declared by async def.")
    # Proxies offer it for call options.
    if name == "with_options":
        raise UsageError(f"{where} has a name that every proxy uses for itself: choose another one.")
    # Vert.x's service proxies dispatch by name alone.
    if typing.get_overloads(function):
        raise UsageError(f"{where} is overloaded; an action has one signature: give the other a name of its own.")
    hints = _hints(where, function, protocol)
    signature = inspect.signature(function)
    is_reference = _services_with(protocol)
    # [1:] leaves out self.
    given = list(signature.parameters.values())[1:]
    parameters = tuple([_parameter(where, parameter, hints, is_reference) for parameter in given])
    if len(parameters) > PARAMETERS_MAX:
        raise UsageError(f"{where} has {len(parameters)} parameters; a method has at most {PARAMETERS_MAX}.")
    # Without it the caller's side could not convert the answer, and could not distinguish a stream from one value.
    if "return" not in hints:
        raise UsageError(f"{where} does not say what it returns: annotate it, with None if it returns nothing.")
    kind, result, shape = _result(where, hints["return"], is_reference)
    is_awaited = inspect.iscoroutinefunction(function)
    # An async generator is declared by a plain `def` that returns an AsyncIterator, so only streams may lack `async`.
    if not is_awaited and kind is not ResultKind.STREAM:
        raise UsageError(f"{where} is not async: declare it by async def, since a call takes time.")
    return MethodDescription(
        name,
        parameters,
        _arguments_type(where, name, parameters),
        result,
        kind,
        bool(getattr(function, _CLOSES, False)),
        is_awaited,
        inspect.cleandoc(function.__doc__ or ""),
        shape,
        tuple([parameter for parameter in parameters if parameter.shape is not None]),
    )


def _hints(where: str, function: types.FunctionType, protocol: type) -> dict[str, Any]:
    try:
        # `include_extras` keeps Annotated, whose msgspec.Meta holds constraints and field numbers. The name of the
        # Protocol itself is bound only after its decorators have run.
        return get_type_hints(function, localns={protocol.__name__: protocol}, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        kind = _NotYetDefined if isinstance(error, NameError) else UsageError
        raise kind(f"{where} has an annotation that means nothing (yet) where it is declared: {error}.") from None


def _services_with(protocol: type) -> Callable[[object], bool]:
    """Recognize declared services, and the one that is being declared."""
    return lambda kind: kind is protocol or is_service(kind)


def _problem(kind: Any, is_reference: Callable[[object], bool]) -> str | None:
    """The reason values of the type do not travel, as the second half of a sentence."""
    # Before msgspec is asked, which knows a service as a class that it cannot convert.
    if mentions_service(kind, is_reference):
        return (
            "a service is passed by itself, with None, as item of a list or tuple, or as value of a dict, and not "
            "otherwise"
        )
    return encoding_problem(kind, is_reference)


def _parameter(
    where: str, parameter: inspect.Parameter, hints: dict[str, Any], is_reference: Callable[[object], bool]
) -> Parameter:
    name, default = parameter.name, parameter.default
    if parameter.kind not in _NAMED:
        shown: dict[Any, str] = {parameter.VAR_POSITIONAL: f"*{name}", parameter.VAR_KEYWORD: f"**{name}"}
        text = shown.get(parameter.kind, f"the positional-only {name}")
        raise UsageError(f"{where} has {text}; arguments travel by name, so each parameter has one.")
    if name.startswith("_"):
        raise UsageError(f"{where} has a parameter {name!r}; names that begin with an underscore are not sent.")
    if name not in hints:
        raise UsageError(f"{where} has a parameter {name!r} without an annotation; its type says how it travels.")
    shape = shape_of(hints[name], is_reference)
    # Refused at declaration instead of at the first call.
    if shape is None and (wrong := _problem(hints[name], is_reference)) is not None:
        raise UsageError(f"{where}: the parameter {name!r} is a {type_name(hints[name])}, and {wrong}.")
    if default is inspect.Parameter.empty:
        default = msgspec.NODEFAULT
    # A list, dict or set.
    elif type(default).__hash__ is None:
        text = f"the default of {name!r} is a {type(default).__name__}, which calls would share and change"
        raise UsageError(f"{where}: {text}; take None or something that cannot change.")
    # A default is used at the service, where an object of the caller's would be nobody's.
    elif shape is not None and default not in (None, ()):
        raise UsageError(
            f"{where}: the default of {name!r} is an object; a reference has None as its default, or none."
        )
    return Parameter(name, hints[name], default, parameter.kind is inspect.Parameter.KEYWORD_ONLY, shape)


def _result(
    where: str, kind: Any, is_reference: Callable[[object], bool]
) -> tuple[ResultKind, Any, ReferenceShape | None]:
    # A returned service travels as a reference: the address of a temporary service.
    if is_reference(kind):
        return ResultKind.REFERENCE, kind, None
    # One reference keeps its header, which Vert.x has for it; None and containers have no place there.
    if (shape := shape_of(kind, is_reference)) is not None:
        return ResultKind.REFERENCES, kind, shape
    if get_origin(kind) in _STREAMS or kind in _STREAMS:
        items = get_args(kind)
        # A bare AsyncIterator names no item type, and items are converted like results.
        if not items:
            raise UsageError(f"{where} returns a stream of it does not say what: AsyncIterator[int], for example.")
        kind, found = items[0], ResultKind.STREAM
    else:
        found = ResultKind.UNARY
    if kind is None or kind is type(None):
        return found, None, None
    if (wrong := _problem(kind, is_reference)) is not None:
        raise UsageError(f"{where} returns a {type_name(kind)}, and {wrong}.")
    return found, kind, None


def _arguments_type(where: str, name: str, parameters: tuple[Parameter, ...]) -> type[msgspec.Struct]:
    """A struct that is made as the method is called, and takes no other names."""
    plain = [_field(parameter) for parameter in parameters if not parameter.is_keyword_only]
    others = [_field(parameter) for parameter in parameters if parameter.is_keyword_only]
    try:
        # Unknown names are refused: a misspelt argument must not be ignored.
        made = msgspec.defstruct(name, plain, forbid_unknown_fields=True)
        if others:
            # Two steps, because `kw_only` applies to the fields of one definition.
            made = msgspec.defstruct(name, others, bases=(made,), forbid_unknown_fields=True, kw_only=True)
        # msgspec checks the types only when a decoder is built.
        msgspec.json.Decoder(made)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where} has parameters that cannot be converted: {error}.") from None
    return made


def _field(parameter: Parameter) -> Any:
    if parameter.is_required:
        return parameter.name, parameter.wire_type
    return parameter.name, parameter.wire_type, parameter.default
