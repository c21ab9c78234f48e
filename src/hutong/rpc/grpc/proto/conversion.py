"""One service's values as messages on the wire, and back. Needs the extra `grpc`.

Strategy: bytes → message → builtins → the method's own struct, checked by msgspec on the last step; a result takes the
way back. A message that is no message, and arguments that are none, are the caller's fault (BadArguments); a result
that does not fit the signature is the service's (DispatchFailed).

Knows no server.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from google.protobuf.message import DecodeError, EncodeError

from hutong.rpc.descriptions.description import ServiceDescription
from hutong.rpc.errors import BadArguments, DispatchFailed
from hutong.rpc.grpc.proto.descriptors import message_class, pool_of
from hutong.rpc.grpc.proto.mapping import RESULT, MethodMapping, map_service
from hutong.rpc.grpc.proto.shapes import builtins_of

A = TypeVar("A")
_NOT_WRITABLE: Final = (TypeError, ValueError, AttributeError, RecursionError, EncodeError, msgspec.ValidationError)


class MethodConversion:
    """The requests and responses of one method."""

    __slots__ = ("_parse", "_write", "mapping", "path")

    def __init__(self, mapping: MethodMapping, path: str, parse: Callable[[bytes], Any]) -> None:
        self.mapping = mapping
        self.path = path
        self._parse = parse
        self._write = mapping.response.write

    def raw_arguments(self, request: bytes) -> dict[str, Any]:
        """Decode a request to arguments, by the names of the parameters. Raises BadArguments."""
        try:
            return self.mapping.request.read(self._parse(request))  # type: ignore[no-any-return]
        except DecodeError:
            raise BadArguments("the request is no message of this type") from None
        except (ValueError, RecursionError) as error:
            raise BadArguments(str(error)) from None

    def arguments(self, request: bytes, kind: type[A]) -> A:
        """The arguments as a struct. Raises BadArguments, which names the field."""
        raw = self.raw_arguments(request)
        try:
            return msgspec.convert(raw, kind)
        except msgspec.ValidationError as error:
            raise BadArguments(str(error)) from None

    def response(self, value: Any, *, is_encoded: bool = False) -> bytes:
        """The response, or one of a stream, with this result. Raises DispatchFailed where it does not fit.

        With `is_encoded` the value is of what JSON can say.
        """
        method = self.mapping.method
        try:
            if method.result_type is None:
                return self._write({}).SerializeToString()  # type: ignore[no-any-return]
            if is_encoded:
                value = msgspec.convert(value, method.result_type)
            plain = builtins_of(value)
            if plain is None:
                self._check_none(method.result_type)
            return self._write({RESULT: plain}).SerializeToString()  # type: ignore[no-any-return]
        except _NOT_WRITABLE as error:
            raise DispatchFailed(f"the result of {method.name} cannot be sent: {error}") from None

    def _check_none(self, kind: Any) -> None:
        """None is the absence of the field, which only some types may have."""
        msgspec.convert(None, kind)


class ServiceConversion:
    """One service: its schema, its descriptors, and its methods by their paths (`/package.Service/Method`).

    Raises UsageError where a signature has no equal in a `.proto`.
    """

    def __init__(self, service: ServiceDescription, package: str | None = None) -> None:
        mapping = map_service(service, package)
        self.service = service
        self.schema = mapping.schema
        self.pool = pool_of(mapping.schema)
        for shape in mapping.messages:
            shape.make = message_class(self.pool, mapping.schema, shape.type.name)
        self.methods: dict[str, MethodConversion] = {}
        for name, method in mapping.methods.items():
            path = f"/{mapping.schema.full_name}/{name}"
            parse = message_class(self.pool, mapping.schema, method.request.type.name).FromString
            self.methods[path] = MethodConversion(method, path, parse)
