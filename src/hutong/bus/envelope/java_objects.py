"""Bodies that only a program in Java can read: carried as the bytes that they are.

Strategy: a node of another language may pass them on, or build one whose format it knows. Nothing here reads a stream
of Java's serialization: reading one runs the code that it names.
"""

from msgspec import Struct


class ClusterSerializable(Struct, frozen=True):
    """An object of a class that implements Vert.x's ClusterSerializable: `data` is what its `writeToBuffer` wrote."""

    class_name: str
    data: bytes


class JavaSerialized(Struct, frozen=True):
    """A stream of Java's own serialization."""

    data: bytes
