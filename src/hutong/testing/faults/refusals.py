"""The answer to a request that says nothing but an error code, in the request's own version.

Strategy: Kafka's answers repeat the shape of what was asked (topics and their partitions, groups, keys), each with a
code; so one is made by walking the request together with the tables of the response, and copying every name. A request
without names gets the code at the top level. An answer of another shape (Metadata, which must also list the brokers)
cannot be refused here.

Knows nothing of connections, and nothing of what a code means.
"""

from typing import Any, Final

from hutong.wire.buffer import Buffer
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.headers import RequestHeader, encode_response_frame
from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.schema import Array, Struct, rows_of

_AT_THE_TOP: Final = frozenset({11, 12, 13, 14, 22})  # group membership and producer ids: one code for all
_IN_EACH_ENTRY: Final = frozenset({0, 1, 2, 8, 9, 10, 19, 20, 21, 37, 42})
REFUSABLE: Final = {APIS[key].name: key for key in sorted(_AT_THE_TOP | _IN_EACH_ENTRY)}
_PRODUCE: Final = 0
_FETCH: Final = 1  # its code at the top is about sessions
_NAMING: Final = frozenset({"name", "topic", "topic_id", "partition_index", "index", "key", "group_id"})


def refusal(frame: Buffer, header: RequestHeader, body_at: int, code: int) -> list[Buffer] | None:
    """The frame to send, or None for a produce that asked for no answer. Raises ProtocolError for a broken request."""
    request = codecs.decode_request(header.api_key, header.api_version, frame, body_at)
    if header.api_key == _PRODUCE and request.acks == 0:
        return None
    response = APIS[header.api_key].response()
    if header.api_key in _IN_EACH_ENTRY:
        _fill(response, request, header.api_version, code)
    if hasattr(response, "error_code") and header.api_key != _FETCH:
        response.error_code = code
    return encode_response_frame(header.api_key, header.api_version, header.correlation_id, response)


def _fill(answer: Any, asked: Any, version: int, code: int) -> None:
    """Give the list of `answer` in which codes stand an entry for each in the first list of `asked` that has any."""
    places = [(name, table) for name, table in _lists_of_tables(type(answer), version) if _has_codes(table, version)]
    values = (getattr(asked, name) for name, row in rows_of(type(asked)) if isinstance(row.wire_type, Array))
    entries = next((value for value in values if value), None)
    if places and entries:
        name, table = places[0]
        setattr(answer, name, [_entry(table, entry, version, code) for entry in entries])


def _entry(table: type[Any], asked: Any, version: int, code: int) -> Any:
    entry = table()
    names = [name for name, _ in rows_of(table)]
    if isinstance(asked, str | int):  # it is what the entry begins with
        setattr(entry, names[0], asked)
    else:
        for name in _NAMING.intersection(names):
            value = getattr(asked, name, getattr(asked, "partition", None))
            if value is not None:
                setattr(entry, name, value)
        _fill(entry, asked, version, code)
    if hasattr(entry, "error_code"):
        entry.error_code = code
    return entry


def _lists_of_tables(table: type[Any], version: int) -> tuple[tuple[str, type[Any]], ...]:
    arrays = ((name, row.wire_type) for name, row in rows_of(table) if version in row.versions)
    return tuple(
        (name, array.element.table)
        for name, array in arrays
        if isinstance(array, Array) and isinstance(array.element, Struct)
    )


def _has_codes(table: type[Any], version: int) -> bool:
    """True if its entries, or those of a list in them, carry a code."""
    return any(name == "error_code" for name, _ in rows_of(table)) or any(
        _has_codes(inner, version) for _, inner in _lists_of_tables(table, version)
    )
