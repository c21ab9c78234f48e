"""Maps a service's signatures to its `.proto` file, and to shapes that convert its values.

Strategy: msgspec has read the annotations already (`msgspec.inspect`); `catalogue` makes messages of the types, here
are the methods: one message of arguments and one of the result for each. Numbers follow the order of declaration, from
1; a field with `Meta(extra={"field_number": N})` has N, and those after it continue from there. So a change that only
adds at the end, or leaves a gap for a removed field, breaks no client.

Knows nothing of gRPC, and imports nothing of protobuf.
"""

from dataclasses import dataclass
from typing import Final

from msgspec import inspect

from hutong.foundation.errors import UsageError
from hutong.rpc.descriptions.description import MethodDescription, ResultKind, ServiceDescription
from hutong.rpc.grpc.proto.catalogue import Catalogue
from hutong.rpc.grpc.proto.fields import Part
from hutong.rpc.grpc.proto.names import Names, identifier, package_of, pascal_case
from hutong.rpc.grpc.proto.schema import Method, Schema
from hutong.rpc.grpc.proto.shapes import MessageShape, RecordShape

RESULT: Final = "result"
"""The field of a response that holds what the method returned, or one item of its stream."""


@dataclass(frozen=True, slots=True)
class MethodMapping:
    """The conversion of one method: a dict of arguments as request; as response one with RESULT, or an empty one."""

    method: MethodDescription
    name: str
    request: RecordShape
    response: RecordShape


@dataclass(frozen=True, slots=True)
class ServiceMapping:
    """A service as others see it: its methods by their names in the `.proto`, and all shapes that need a class."""

    service: ServiceDescription
    schema: Schema
    methods: dict[str, MethodMapping]
    messages: tuple[MessageShape, ...]


def map_service(service: ServiceDescription, package: str | None = None) -> ServiceMapping:
    """The mapping of a service, in `package` or the one its address makes. Raises UsageError, naming the method."""
    name = identifier(service.name.rpartition(".")[2], "The service")
    names = Names(name)
    catalogue = Catalogue(names)
    # All types of the user's have their names before the messages of methods get theirs.
    parts = [(method, *_parts(catalogue, service, method)) for method in service.methods.values()]
    methods: dict[str, MethodMapping] = {}
    for method, parameters, results in parts:
        mapping = _method(catalogue, names, service, method, parameters, results)
        if (other := methods.setdefault(mapping.name, mapping)) is not mapping:
            both = f"{other.method.name} and {method.name}"
            raise UsageError(f"{service.name} has {both}, which are both {mapping.name} in the .proto.")
    package = package_of(service.address) if package is None else package
    schema = _schema(package, name, service.documentation, methods, catalogue)
    return ServiceMapping(service, schema, methods, tuple(catalogue.shapes))


def _parts(
    catalogue: Catalogue, service: ServiceDescription, method: MethodDescription
) -> tuple[list[Part], list[Part]]:
    """The fields of arguments and result, with the types that they name."""
    where = f"{service.name.rpartition('.')[2]}.{method.name}"
    # A gRPC client calls and is never called, and its server cannot tell the connections of one client apart.
    if method.references or method.kind in (ResultKind.REFERENCE, ResultKind.REFERENCES):
        passes = f"takes a service as {method.references[0].name!r}" if method.references else "returns another service"
        raise UsageError(
            f"{where} {passes}, which gRPC has no word for: leave it to callers on the bus or over TCP, "
            "and offer a Protocol without it here."
        )
    arguments = inspect.type_info(method.arguments_type)
    assert isinstance(arguments, inspect.StructType)
    parameters = catalogue.parts(where, arguments.fields)
    if method.result_type is None:
        return parameters, []
    return parameters, [catalogue.part(f"{where}: the result", RESULT, inspect.type_info(method.result_type))]


def _method(
    catalogue: Catalogue,
    names: Names,
    service: ServiceDescription,
    method: MethodDescription,
    parameters: list[Part],
    results: list[Part],
) -> MethodMapping:
    name = pascal_case(identifier(method.name, f"A method of {service.name}"))
    request, response = f"{name}Request", f"{name}Response"
    if not (names.is_free(request) and names.is_free(response)):
        request, response = f"{name}Arguments", f"{name}Result"  # the others are types of the user's
    records = [RecordShape(names.take(each, f"{service.name}.{method.name}")) for each in (request, response)]
    for record, parts in zip(records, (parameters, results), strict=True):
        catalogue.declare(record, parts)
    return MethodMapping(method, name, *records)


def _schema(
    package: str, name: str, documentation: str, methods: dict[str, MethodMapping], catalogue: Catalogue
) -> Schema:
    declared = tuple(
        Method(
            mapping.name,
            mapping.request.type.name,
            mapping.response.type.name,
            mapping.method.kind is ResultKind.STREAM,
            mapping.method.documentation,
        )
        for mapping in methods.values()
    )
    ours = [each for method in declared for each in (method.request, method.response)]
    order = [*ours, *(each for each in catalogue.messages if each not in ours)]  # the methods' first
    messages = [catalogue.messages[each] for each in order]
    done = tuple(message for message in messages if message is not None)
    return Schema(package, name, declared, done, tuple(catalogue.enums), documentation)
