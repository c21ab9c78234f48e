"""The entry of each node with high availability, which is Vert.x's own: a text of JSON in a synchronous map.

    syncMap/__vertx.haInfo/NODE    {"verticles": [{"dep_id", "verticle_name", "options"}], "group"}

Strategy: a verticle of Python has the name `python:MODULE:CLASS`, and a group of ours the name `python:GROUP`. So a
node of Vert.x finds no node of its own group among ours, and leaves our verticles alone; what it has is none of ours.

Knows no ZooKeeper and no verticles, only how they are named.
"""

import json
from typing import Any, Final

import msgspec

from hutong.bus.shared.values import decode_pair, encode_pair
from hutong.foundation.errors import ProtocolError

MAP: Final = "syncMap/__vertx.haInfo"
PREFIX: Final = "python:"
VERTICLES_MAX: Final = 200
"""Of one node, those that it has taken over among them."""
VERTICLE_BYTES_MAX: Final = 4_500
"""Of one verticle in the entry: its configuration is nearly all of it. All of them are less than one entry's bound."""


class HaVerticle(msgspec.Struct, frozen=True):
    """A verticle that any node of the group can make: `name` is MODULE:CLASS, `options` are JSON."""

    id: str
    name: str
    options: dict[str, Any]


class NodeEntry(msgspec.Struct, frozen=True):
    """The entry of one node. `group` is a name of ours, None for a group of Vert.x's."""

    group: str | None
    verticles: tuple[HaVerticle, ...]


class _Deployed(msgspec.Struct):
    dep_id: str
    verticle_name: str
    # Vert.x has a dozen of its own, which mean nothing here.
    options: dict[str, Any] = {}  # msgspec copies it


class _Info(msgspec.Struct):
    group: str
    verticles: list[_Deployed]


_decode: Final = msgspec.json.Decoder(_Info).decode


def path_of(node: str) -> str:
    return f"{MAP}/{node}"


def encode_entry(node: str, group: str, verticles: tuple[HaVerticle, ...]) -> bytes:
    deployed = [_deployed(verticle) for verticle in verticles]
    return encode_pair(node, _text({"verticles": deployed, "group": PREFIX + group}))


def decode_entry(data: bytes) -> NodeEntry:
    """Raises ProtocolError. Verticles that are not Python's are left out."""
    _, text = decode_pair(data)
    try:
        info = _decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise ProtocolError(f"no entry of a node with high availability: {error}") from None
    # It counts as a node, and has nothing that could be made here.
    if not info.group.startswith(PREFIX):
        return NodeEntry(None, ())
    found = [
        HaVerticle(each.dep_id, each.verticle_name.removeprefix(PREFIX), each.options)
        for each in info.verticles
        if each.verticle_name.startswith(PREFIX)
    ]
    return NodeEntry(info.group.removeprefix(PREFIX), tuple(found))


def bytes_of(verticle: HaVerticle) -> int:
    """The bytes that it has in an entry. Raises TypeError, ValueError for options that JSON cannot say."""
    return len(_text(_deployed(verticle)))


def _deployed(verticle: HaVerticle) -> dict[str, Any]:
    return {"dep_id": verticle.id, "verticle_name": PREFIX + verticle.name, "options": verticle.options}


def _text(value: Any) -> str:
    # ASCII alone: a character has then as many bytes in Java's encoding as it has here.
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
