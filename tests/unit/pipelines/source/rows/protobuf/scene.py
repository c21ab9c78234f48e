"""Descriptors of texts, and messages of protobuf's own library."""

from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass

from hutong.pipelines.source.rows.protobuf.descriptors import DescriptorSet, parse_files
from hutong.pipelines.source.rows.protobuf.plan import ProtoMessage, plan_of
from hutong.registry.formats.protobuf import ProtobufFormat


def file_of(text: str) -> bytes:
    """The descriptor, as a registry hands it out."""
    found = descriptor_pb2.FileDescriptorProto()
    ProtobufFormat().parse(text, ()).descriptor.CopyToProto(found)
    return bytes(found.SerializeToString())


def set_of(text: str) -> DescriptorSet:
    return parse_files([file_of(text)])


def plan(text: str, name: str = "", recursion_max: int | None = None) -> ProtoMessage:
    return plan_of(set_of(text), name, recursion_max)


def message(text: str, name: str) -> Any:
    """A new message of protobuf's own library."""
    pool = ProtobufFormat().parse(text, ()).descriptor.pool
    return GetMessageClass(pool.FindMessageTypeByName(name))()
