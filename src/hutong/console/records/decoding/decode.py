"""The choice of a form: the user's, or the first that fits, with the reason.

Strategy: what says of itself what it is comes first (a schema's id), then what has a syntax that seldom fits by chance
(JSON objects and lists), then text. MessagePack takes almost any bytes, so it must be a map or a list and no text.
Nothing is raised for any bytes: what does not fit is shown as text or as hex, and the answer says why.

Knows nothing of records.
"""

from dataclasses import replace
from typing import Final

from hutong.console.limits import VALUE_CHARS_MAX
from hutong.console.records.decoding.json_form import check_json, indent_json
from hutong.console.records.decoding.messagepack_form import read_messagepack
from hutong.console.records.decoding.plain_forms import read_hex, read_text
from hutong.console.records.decoding.rendering import Rendering
from hutong.console.records.decoding.schema_form import read_by_schema, schema_id_of
from hutong.console.records.decoding.shown import OtherForm, SchemaOf, ShownBytes

AUTO: Final = "auto"
FORMS: Final = (AUTO, "text", "json", "schema", "messagepack", "hex")
_STRANGE_OF_TEXT_MAX: Final = 0.1
"""Bytes with a larger part of controls, and of what is no UTF-8, are no text with a few faults."""
_SAMPLE_BYTES: Final = 4_096
_SPACES: Final = frozenset(b"\t\n\r")


class PayloadDecoder:
    """Shows bytes. `schema_of` is the registry's, where there is one."""

    def __init__(self, schema_of: SchemaOf | None = None) -> None:
        self._schema_of = schema_of

    def show(self, data: bytes | None, form: str = AUTO, chars_max: int = VALUE_CHARS_MAX) -> ShownBytes:
        """The bytes in a form of FORMS."""
        if data is None:
            return ShownBytes("none", "there is none", "", -1)
        if not data:
            return ShownBytes("text", "it is empty", "", 0)
        if form == AUTO:
            return self._chosen(data, chars_max)
        try:
            return self._shown(data, form, chars_max, "it was asked for")
        except OtherForm as error:
            return _plain(data, chars_max, f"it cannot be shown as {form}: {error}")

    def show_cut(self, head: bytes, size_bytes: int, form: str = AUTO, chars_max: int = VALUE_CHARS_MAX) -> ShownBytes:
        """The first bytes of a longer key or value: as text or hex, since no other form has parts."""
        shown = _hex(head, chars_max, "", ()) if form == "hex" else _plain(head, chars_max, "")
        return replace(shown, size_bytes=size_bytes, is_whole=False)

    def _chosen(self, data: bytes, chars_max: int) -> ShownBytes:
        notes: tuple[str, ...] = ()
        if schema_id_of(data) is not None and self._schema_of is not None:
            try:
                return self._shown(data, "schema", chars_max, "it begins with the id of a schema")
            except OtherForm as error:
                notes = (f"{error}.".capitalize(),)
        for form, fits, why in (
            ("json", _looks_like_json, "it is a JSON document"),
            ("messagepack", _looks_like_messagepack, "it is a MessagePack value"),
        ):
            if not fits(data):
                continue
            try:
                return self._shown(data, form, chars_max, why, notes)
            except OtherForm:
                continue
        return _plain(data, chars_max, "", notes)

    def _shown(self, data: bytes, form: str, chars_max: int, why: str, notes: tuple[str, ...] = ()) -> ShownBytes:
        """Raises OtherForm."""
        if form == "json":
            text, is_whole = indent_json(check_json(data), chars_max)
            return ShownBytes(form, why, text, len(data), is_whole, notes)
        if form == "messagepack":
            return _rendered(read_messagepack(data), form, why, data, chars_max)
        if form == "schema":
            if self._schema_of is None:
                raise OtherForm("no registry of schemas is known here")
            value, schema = read_by_schema(data, self._schema_of)
            shown = _rendered(value, schema.type.lower(), why, data, chars_max)
            return ShownBytes(shown.form, why, shown.text, len(data), shown.is_whole, notes, schema)
        return _text(data, chars_max, why, notes) if form == "text" else _hex(data, chars_max, why, notes)


def _rendered(value: object, form: str, why: str, data: bytes, chars_max: int) -> ShownBytes:
    rendering = Rendering(chars_max)
    rendering.render(value)
    return ShownBytes(form, why, rendering.text, len(data), rendering.is_whole)


def _plain(data: bytes, chars_max: int, why: str, notes: tuple[str, ...] = ()) -> ShownBytes:
    """Text, or hex where that would be unreadable."""
    if _looks_like_text(data):
        return _text(data, chars_max, why or "it is text", notes)
    return _hex(data, chars_max, why or "it is neither text nor of a form that is known", notes)


def _text(data: bytes, chars_max: int, why: str, notes: tuple[str, ...]) -> ShownBytes:
    text, replaced = read_text(data, chars_max)
    if replaced:
        notes = (*notes, f"What is not UTF-8 is shown as �: {replaced} times.")
    return ShownBytes("text", why, text, len(data), len(data) <= chars_max, notes)


def _hex(data: bytes, chars_max: int, why: str, notes: tuple[str, ...]) -> ShownBytes:
    text, is_whole = read_hex(data, chars_max)
    # Java's serializers of numbers, which many keys have.
    if len(data) in (4, 8):
        notes = (*notes, f"As a number of {len(data)} bytes it is {int.from_bytes(data, signed=True)}.")
    return ShownBytes("hex", why, text, len(data), is_whole, notes)


def _looks_like_json(data: bytes) -> bool:
    return data[:_SAMPLE_BYTES].lstrip()[:1] in (b"{", b"[")


def _looks_like_messagepack(data: bytes) -> bool:
    # Maps and lists of the short kind, of 16 and of 32 bits.
    return (0x80 <= data[0] <= 0x9F or data[0] in (0xDC, 0xDD, 0xDE, 0xDF)) and not _is_utf8(data)


def _looks_like_text(data: bytes) -> bool:
    sample = data[:_SAMPLE_BYTES]
    text, replaced = read_text(data, _SAMPLE_BYTES)
    controls = sum(1 for byte in sample if byte < 0x20 and byte not in _SPACES)
    return replaced + controls <= _STRANGE_OF_TEXT_MAX * len(text)


def _is_utf8(data: bytes) -> bool:
    return read_text(data, _SAMPLE_BYTES)[1] == 0
