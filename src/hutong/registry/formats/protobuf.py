"""Protobuf: schemas as text or as a file descriptor in base64, resolved by protobuf's own pool, and compared.

Strategy: both forms become a descriptor, and that is printed: so clients that send either have one id. What is printed
is read again; where that is not the same descriptor (options of others, say), the text is kept as it came.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from hutong.registry.formats.proto_comparison import ProtoComparison
from hutong.registry.formats.proto_printing import print_file
from hutong.registry.formats.proto_reading import ProtoReader
from hutong.registry.formats.shape import NamedText, ParsedSchema
from hutong.registry.values import invalid_schema

NAME: Final = "default"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_OWN: Final = frozenset(
    f"google/protobuf/{name}.proto"
    for name in (
        "any api descriptor duration empty field_mask source_context struct timestamp type wrappers".split()  # noqa: SIM905
    )
)


class ProtobufSchema:
    """One parsed schema: the resolved `file`, and the text that is kept."""

    def __init__(self, file: Any, descriptor: Any, canonical: str) -> None:
        self._file = file
        self.descriptor = descriptor
        self._canonical = canonical

    @property
    def canonical(self) -> str:
        return self._canonical

    def normalized(self) -> str:
        return self._canonical

    def serialized(self) -> str:
        """The descriptor in base64, for clients that read no text."""
        return base64.b64encode(self._file.SerializeToString(deterministic=True)).decode()

    def troubles_reading(self, writer: ParsedSchema) -> list[str]:
        assert isinstance(writer, ProtobufSchema)
        comparison = ProtoComparison()
        comparison.compare(self.descriptor, writer.descriptor)
        return comparison.troubles.messages


class ProtobufFormat:
    """Protobuf schemas, which import files by the names of their references."""

    def parse(self, text: str, imports: Sequence[NamedText]) -> ProtobufSchema:
        """Raises Refused."""
        file = _read(text)
        file.name = NAME
        pool = _pool(imports)
        descriptor, resolved = _resolve(file, pool)
        printed = print_file(resolved)
        is_same = _is_same(printed, resolved, imports)
        return ProtobufSchema(resolved, descriptor, printed if is_same else text.strip())


def _read(text: str) -> Any:
    stripped = "".join(text.split())
    if not stripped:
        raise invalid_schema("it is empty")
    if _BASE64.fullmatch(stripped) is None:
        return ProtoReader(text).read()
    file = pb.FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(stripped, validate=True))
    except (binascii.Error, DecodeError):
        raise invalid_schema("it is neither text nor a file descriptor in base64") from None
    return file


def _pool(imports: Sequence[NamedText]) -> DescriptorPool:
    pool = DescriptorPool()
    for each in imports:
        file = _read(each.text)
        file.name = each.name
        _resolve(file, pool)
    return pool


def _resolve(file: Any, pool: DescriptorPool) -> tuple[Any, Any]:
    """The descriptor, and its file with the full names of all types. Raises Refused."""
    for name in file.dependency:
        if name in _OWN:
            _add_own(name, pool)
    file.ClearField("source_code_info")
    try:
        pool.AddSerializedFile(file.SerializeToString())
        descriptor = pool.FindFileByName(file.name)
    except (TypeError, KeyError) as error:
        raise invalid_schema(str(error)[:500]) from None
    resolved = pb.FileDescriptorProto()
    descriptor.CopyToProto(resolved)
    _drop_defaults(resolved)
    return descriptor, resolved


def _add_own(name: str, pool: DescriptorPool) -> None:
    """Add a file that comes with protobuf."""
    file = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR
    for each in file.dependencies:
        _add_own(each.name, pool)
    pool.AddSerializedFile(file.serialized_pb)


def _drop_defaults(file: Any) -> None:
    """Leave out what says nothing: the name in JSON, which protobuf writes for every field, and empty options."""
    for method in (each for service in file.service for each in service.method):
        if not method.options.ByteSize():
            method.ClearField("options")
    waiting = [*file.message_type]
    fields = [*file.extension]
    while waiting:
        message = waiting.pop()
        fields += [*message.field, *message.extension]
        waiting += message.nested_type
    for field in fields:
        if field.json_name == _json_name(field.name) or field.extendee:
            field.ClearField("json_name")


def _json_name(name: str) -> str:
    return re.sub(r"_+([^_]?)", lambda found: found[1].upper(), name)


def _is_same(printed: str, resolved: Any, imports: Sequence[NamedText]) -> bool:
    """True where the text means the same descriptor."""
    file = ProtoReader(printed).read()
    file.name = NAME
    _, again = _resolve(file, _pool(imports))
    return bool(again == resolved)
