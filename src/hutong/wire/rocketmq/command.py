"""Commands: the one kind of frame of RocketMQ's remoting, with its header in JSON or in RocketMQ's binary form.

    u32 length of all that follows, then
    u8 form of the header (0 JSON, 1 binary), u24 length of the header, header, body

    binary header: i16 code, u8 language, i16 version, i32 opaque, i32 flag, i32 length and remark,
    i32 length and the ext fields, each: i16 length and key, i32 length and value; text is UTF-8

Strategy: nearly every frame has a binary header without a remark: it is read by one `unpack_from` and written by one
`pack`. Ext fields stay undecoded bytes (`ext_block`) until they are read, so that a sender can cache a constant block
and a receiver can recognize one. A client lays out the fields of its requests alike each time: layouts are remembered
by the length of their block, and the next block is taken apart by one `unpack`. Every length is checked before it is
used, and must fit exactly. ProtocolError is the only error that leaves a decoder.

This follows Java's remoting (4.9.8, 5.3.3). Known differences of others: ali-ons writes numbers and booleans as values
of ext fields, Go and ali-ons set no oneway flag, and all take an answer in JSON. Knows nothing of what a code means.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

JSON: Final = 0
BINARY: Final = 1

FRAME_BYTES_MAX: Final = 16_777_216  # what Java's decoder takes, without the u32 before it
HEADER_BYTES_MAX: Final = 1 << 20  # Java's is 16 MiB; nobody's header holds more than a message's properties
EXT_FIELDS_MAX: Final = 1_024
LAYOUTS_MAX: Final = 256  # that are remembered; a client has one for each code and some lengths of its values
LAYOUT_FIELDS_MAX: Final = 32  # requests of clients have 20 at most

IS_RESPONSE: Final = 1  # bits of `flag`
IS_ONEWAY: Final = 2

LANGUAGES: Final = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
    "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
)  # fmt: skip
"""Names in JSON, by their numbers in binary."""
PYTHON: Final = 3
OTHER: Final = 7
VERSION: Final = 500  # of the protocol we claim: from here on name servers answer in JSON that others can read

_FIXED: Final = struct.Struct(">IhBhiiii")  # the header's mark, then a binary header without a remark
_FRAME: Final = struct.Struct(">IIhBhiiii")  # the same behind the length of the frame
_BEFORE_REMARK: Final = struct.Struct(">IIhBhiii")
_MARK: Final = struct.Struct(">I")
_KEY: Final = struct.Struct(">h")
_LENGTH: Final = struct.Struct(">i")
_FIXED_BYTES: Final = 21  # a binary header with neither remark nor ext fields
_PLAIN_BYTES_MAX: Final = 64 * 1024  # of a frame for which no bound has to be looked at, and one copy is cheap
_BINARY_MARK: Final = BINARY << 24
_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1
_SHORT_MIN: Final = -(1 << 15)
_SHORT_MAX: Final = (1 << 15) - 1
_pack_frame: Final = _FRAME.pack
_unpack_fixed: Final = _FIXED.unpack_from
_HEADER_END_MAX: Final = 4 + HEADER_BYTES_MAX


class Command(msgspec.Struct, gc=False):
    """A request, an answer to the request with the same `opaque`, or a request that wants none (oneway).

    `body` is a view of the frame where that is large. Of the ext fields a received binary command has the `ext_block`,
    any other may have the `fields` instead; `ext()` gives them in either case. `serialization` is the form of the
    header it came in, which is also what its answer should have.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    ext_block: bytes | None = None
    body: Buffer = b""
    remark: str | None = None
    fields: dict[str, str] | None = None
    language: int = PYTHON
    version: int = VERSION
    serialization: int = BINARY

    @property
    def is_response(self) -> bool:
        return self.flag & IS_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & IS_ONEWAY != 0

    def ext(self) -> dict[str, str]:
        """The ext fields, decoded once. Raises ProtocolError."""
        if self.fields is None:
            self.fields = decode_ext(self.ext_block) if self.ext_block else {}
        return self.fields


class _JsonHeader(msgspec.Struct, gc=False):
    code: int
    language: str | int = OTHER
    version: int = 0
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    extFields: dict[str, str | int | float | bool | None] | None = None  # as it is written


_json_decoder: Final = msgspec.json.Decoder(_JsonHeader)
_json_encoder: Final = msgspec.json.Encoder()


def decode(frame: Buffer) -> Command:
    """The command in a frame without its u32 length. Raises ProtocolError."""
    size = len(frame)
    if size >= 25:  # a binary header without a remark, behind its mark
        mark, code, language, version, opaque, flag, remark_size, ext_size = _unpack_fixed(frame)
        end = mark - _BINARY_MARK + 4
        # One comparison covers every length: a wrong mark, remark or ext size fails it and goes to the general decoder.
        if not remark_size and end == 25 + ext_size and 25 <= end <= size and end <= _HEADER_END_MAX:
            ext_block = bytes(frame[25:end]) if ext_size else None
            return Command(code, opaque, flag, ext_block, frame[end:], None, None, language, version)
    return _decode_general(frame, size)


def _decode_general(frame: Buffer, size: int) -> Command:
    """Decode any frame, or name its fault."""
    if size < 4:
        raise ProtocolError(f"a frame of {size} bytes has no header")
    (mark,) = _MARK.unpack_from(frame)
    end = 4 + (mark & 0xFFFFFF)
    if end > size or end - 4 > HEADER_BYTES_MAX:
        raise ProtocolError(f"a header of {end - 4} bytes in a frame of {size}; {HEADER_BYTES_MAX} are allowed")
    # The top byte of the header's length is its form (`RemotingCommand.markProtocolType` in Java).
    if mark >> 24 == JSON:
        return _decode_json(frame, end)
    if mark >> 24 != BINARY:
        raise ProtocolError(f"a header in form {mark >> 24}; there are 0 (JSON) and 1 (binary)")
    if end < 4 + _FIXED_BYTES:
        raise ProtocolError(f"a binary header of {end - 4} bytes; it has {_FIXED_BYTES} at least")
    _, code, language, version, opaque, flag, remark_size, ext_size = _FIXED.unpack_from(frame)
    remark = None
    begin = 4 + _FIXED_BYTES
    if remark_size:
        begin += remark_size
        # The remark moves the length of the ext fields behind it.
        if remark_size < 0 or begin > end:
            raise ProtocolError(f"a remark of {remark_size} bytes in a header of {end - 4}")
        remark = _text(frame[begin - remark_size - 4 : begin - 4])
        (ext_size,) = _LENGTH.unpack_from(frame, begin - 4)
    # Bytes left over would mean that the sender has another format.
    if begin + ext_size != end:
        raise ProtocolError(f"ext fields of {ext_size} bytes where there are {end - begin}")
    ext_block = bytes(frame[begin:end]) if ext_size else None
    return Command(code, opaque, flag, ext_block, frame[end:], remark, None, language, version)


def encode(command: Command, *, serialization: int | None = None) -> list[Buffer]:
    """The whole frame, with its u32 length, in the form asked for or else the command's own.

    A code that is no 16-bit number always goes as JSON, which has room for it: the binary form would change it. Raises
    ValueError for what does not fit the format.
    """
    form = command.serialization if serialization is None else serialization
    if (
        form == BINARY
        and command.fields is None
        and command.remark is None
        and command.version == VERSION
        and command.language == PYTHON
    ):
        # None where a number does not fit its field: the general encoder reports which.
        plain = _encode_plain(command)
        if plain is not None:
            return plain
    if form == JSON or not _SHORT_MIN <= command.code <= _SHORT_MAX:
        head = _encode_json(command)
    else:
        head = _encode_binary(command)
    length = len(head) - 4 + len(command.body)
    # Java's decoder closes the connection at a longer frame, so the caller learns of it here.
    if length > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {length} bytes; {FRAME_BYTES_MAX} are allowed")
    _MARK.pack_into(head, 0, length)
    return [bytes(head), command.body] if command.body else [bytes(head)]


def encode_binary(
    code: int, opaque: int, flag: int, ext_block: bytes = b"", body: Buffer = b"", remark: bytes = b""
) -> bytes:
    """A whole binary frame by the shortest way: for a caller that keeps to the bounds of the format by itself."""
    # A remark moves the length behind it, so such a frame is packed in two steps.
    if remark:
        # A remark moves the length behind it, so such a frame is packed in two steps.
        return _binary_header(Command(code, opaque, flag, body=body), remark, ext_block) + body
    ext_size = len(ext_block)
    length = 25 + ext_size + len(body)
    head = _pack_frame(length, _BINARY_MARK + 21 + ext_size, code, PYTHON, VERSION, opaque, flag, 0, ext_size)
    return b"".join((head, ext_block, body))


def encode_ext(fields: Mapping[str, str]) -> bytes:
    """The block of these ext fields, in their order. Raises ValueError where there are too many, or one is too long."""
    if len(fields) > EXT_FIELDS_MAX:
        raise ValueError(f"{len(fields)} ext fields; {EXT_FIELDS_MAX} are allowed")
    parts: list[bytes] = []
    for name, value in fields.items():
        key, data = name.encode(), value.encode()
        # Keys have a 16-bit length, values a 32-bit one.
        if not 0 < len(key) <= _SHORT_MAX:
            raise ValueError(f"the name of an ext field has {len(key)} bytes; 1 to {_SHORT_MAX} are allowed")
        parts += (_KEY.pack(len(key)), key, _LENGTH.pack(len(data)), data)
    block = b"".join(parts)
    if len(block) > HEADER_BYTES_MAX - _FIXED_BYTES:
        raise ValueError(f"ext fields of {len(block)} bytes; a header has {HEADER_BYTES_MAX} at most")
    return block


class _Layout:
    """The layout of a block of ext fields. `marks` has what is constant between the values: lengths and names."""

    __slots__ = ("marks", "names", "unpack")

    def __init__(self, names: Sequence[str], marks: Sequence[bytes], sizes: Sequence[int]) -> None:
        self.names = names
        self.marks = tuple(marks)
        parts = [f"{len(mark)}s{size}s" for mark, size in zip(marks, sizes, strict=True)]
        self.unpack = struct.Struct("".join(parts)).unpack


_layouts: dict[int, _Layout] = {}
"""The newest layout of each length of a block."""


def decode_ext(block: bytes) -> dict[str, str]:
    """The ext fields in a block; of a name that comes twice, the last. Raises ProtocolError."""
    layout = _layouts.get(len(block))
    if layout is not None:
        # 2 us instead of 9 for the 14 fields of a message.
        pieces = layout.unpack(block)
        # The same names and lengths were checked when the layout was learnt.
        if pieces[::2] == layout.marks:
            try:
                return dict(zip(layout.names, map(bytes.decode, pieces[1::2]), strict=True))
            except UnicodeDecodeError:
                raise ProtocolError("text that is not UTF-8") from None
    return _decode_fields(block)


def _decode_fields(block: bytes) -> dict[str, str]:
    """Decode a block field by field, and learn its layout."""
    fields: dict[str, str] = {}
    marks: list[bytes] = []
    sizes: list[int] = []
    at, end = 0, len(block)
    try:
        while at < end:
            (size,) = _KEY.unpack_from(block, at)
            key_end = at + 2 + size
            (value_size,) = _LENGTH.unpack_from(block, key_end)
            value_at = key_end + 4
            value_end = value_at + value_size
            # Counted, since a block of 1 MiB can hold 150,000 fields of 7 bytes. Sizes are signed on the wire, and a
            # name has at least a byte.
            if size <= 0 or value_size < 0 or value_end > end or len(marks) >= EXT_FIELDS_MAX:
                raise ProtocolError("the lengths of the ext fields do not fit their block, or they are too many")
            fields[_text(block[at + 2 : key_end])] = _text(block[value_at:value_end])
            marks.append(block[at:value_at])
            sizes.append(value_size)
            at = value_end
    except struct.error:
        # A length was cut off by the end of the block.
        raise ProtocolError("the ext fields end in the middle of one") from None
    # A name that comes twice is no client's doing.
    if len(fields) == len(marks) <= LAYOUT_FIELDS_MAX:
        # Forgotten all at once: a client that sends new lengths without end costs others one decoding each.
        if len(_layouts) >= LAYOUTS_MAX:
            _layouts.clear()
        _layouts[end] = _Layout(tuple(fields), marks, sizes)
    return fields


def _encode_plain(command: Command) -> list[Buffer] | None:
    """The frame of a command as this node makes them; None if it needs the general encoder."""
    ext_block, body = command.ext_block or b"", command.body
    # A large body is not copied into one buffer.
    if len(ext_block) + len(body) > _PLAIN_BYTES_MAX:
        return None
    try:
        return [encode_binary(command.code, command.opaque, command.flag, ext_block, body)]
    except struct.error:
        return None


def _encode_binary(command: Command) -> bytearray:
    remark = (command.remark or "").encode()
    # Fields that were read or set win over the block that they were decoded from.
    ext_block = encode_ext(command.fields) if command.fields is not None else command.ext_block or b""
    header_size = _FIXED_BYTES + len(remark) + len(ext_block)
    if header_size > HEADER_BYTES_MAX:
        raise ValueError(f"a header of {header_size} bytes; {HEADER_BYTES_MAX} are allowed")
    try:
        return bytearray(_binary_header(command, remark, ext_block))
    except struct.error as error:
        raise ValueError(f"the command does not fit its header: {error}") from None


def _binary_header(command: Command, remark: bytes, ext_block: bytes) -> bytes:
    """The length of the frame, then the header with remark and ext fields."""
    header_size = _FIXED_BYTES + len(remark) + len(ext_block)
    head = _BEFORE_REMARK.pack(
        4 + header_size + len(command.body),
        _BINARY_MARK + header_size,
        command.code,
        command.language,
        command.version,
        command.opaque,
        command.flag,
        len(remark),
    )
    return b"".join((head, remark, _LENGTH.pack(len(ext_block)), ext_block))


def _encode_json(command: Command) -> bytearray:
    # A number that Java's decoder and ours refuse would end the whole connection.
    for name, number in (("code", command.code), ("opaque", command.opaque), ("flag", command.flag)):
        if not _INT_MIN <= number <= _INT_MAX:
            raise ValueError(f"the {name} {number} is no number of 32 bits")
    language = command.language
    header: dict[str, Any] = {
        "code": command.code,
        "extFields": command.ext(),  # never null: Java reads answers' fields without asking
        "flag": command.flag,
        "language": LANGUAGES[language] if 0 <= language < len(LANGUAGES) else LANGUAGES[OTHER],
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    if command.remark is not None:
        header["remark"] = command.remark
    data = _json_encoder.encode(header)
    if len(data) > HEADER_BYTES_MAX:
        raise ValueError(f"a header of {len(data)} bytes; {HEADER_BYTES_MAX} are allowed")
    return bytearray(_MARK.pack(0) + _MARK.pack(len(data)) + data)


def _decode_json(frame: Buffer, end: int) -> Command:
    try:
        header = _json_decoder.decode(frame[4:end])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the header is no JSON of a command: {error}") from None
    # JSON numbers have no size, but Java reads these as 32-bit ints.
    numbers = (header.code, header.opaque, header.flag)
    if not all(_INT_MIN <= number <= _INT_MAX for number in numbers) or not _SHORT_MIN <= header.version <= _SHORT_MAX:
        raise ProtocolError("a number of the header does not fit its type")
    # Null means an absent field: Java writes none for it.
    fields = {name: _as_text(value) for name, value in (header.extFields or {}).items() if value is not None}
    if len(fields) > EXT_FIELDS_MAX:
        raise ProtocolError(f"{len(fields)} ext fields; {EXT_FIELDS_MAX} are allowed")
    language = _language(header.language)
    return Command(
        header.code,
        header.opaque,
        header.flag,
        None,
        frame[end:],
        header.remark,
        fields,
        language,
        header.version,
        JSON,
    )


def _language(named: str | int) -> int:
    # Some clients write the language as its number.
    if isinstance(named, int):
        # An unknown language is no reason to refuse a client.
        return named if 0 <= named < len(LANGUAGES) else OTHER
    return LANGUAGES.index(named) if named in LANGUAGES else OTHER


def _as_text(value: str | int | float | bool) -> str:
    if isinstance(value, str):
        return value
    # Before `str`: Python writes True where JSON and Java write true.
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _text(data: Buffer) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("text that is not UTF-8") from None
