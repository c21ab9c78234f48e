"""Changes and their outcomes on their way between nodes, and what no node sends."""

import pytest

from hutong.foundation.errors import ProtocolError, Refused
from hutong.registry.changes import (
    Change,
    ChangeAnswer,
    DeleteSubject,
    DeleteVersion,
    RegisterSchema,
    SetLevel,
    SetMode,
    decode_change,
    decode_outcome,
    encode_change,
    encode_outcome,
)
from hutong.registry.values import Compatibility, Mode, NotRecorded, SchemaReference, SchemaText, UnknownOutcome

TEXT = SchemaText("JSON", "{}", (SchemaReference("n", "t", 1),), '{"metadata":{}}')


@pytest.mark.parametrize(
    "change",
    [
        RegisterSchema("s", TEXT, normalize=True, id=3, version=4),
        DeleteSubject(":.c:s", is_permanent=True),
        DeleteVersion("s", None, is_permanent=False),
        SetLevel(None, Compatibility.FULL_TRANSITIVE),
        SetLevel("s", None),
        SetMode("s", Mode.IMPORT, is_forced=True),
    ],
)
def test_a_change_arrives_as_it_was(change: Change) -> None:
    assert decode_change(encode_change(change)) == change


def test_an_answer_arrives_as_it_was() -> None:
    answer = ChangeAnswer(1, 2, (3, 4), "FULL")
    assert decode_outcome(encode_outcome(answer)) == answer


@pytest.mark.parametrize("refusal", [Refused(409, "no"), NotRecorded("not now"), UnknownOutcome("perhaps")])
def test_a_refusal_is_raised_where_it_arrives(refusal: Refused) -> None:
    with pytest.raises(type(refusal)) as raised:
        decode_outcome(encode_outcome(refusal))
    assert type(raised.value) is type(refusal)
    assert (raised.value.code, raised.value.message) == (refusal.code, refusal.message)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"{}", b"\xff", b'{"type":"Drop"}', b"[" * 5_000, b'{"type":"RegisterSchema"}']
)
def test_what_no_node_sends_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_change(data)
    with pytest.raises(ProtocolError):
        decode_outcome(data)
