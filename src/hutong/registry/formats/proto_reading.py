"""Protobuf's language, proto2 and proto3, read into a file descriptor (protobuf.dev, "Language Specification").

Strategy: a tokenizer, and one function for each kind of statement. Names of types stay as they are written: protobuf's
own descriptor pool finds what they mean, and checks names and numbers. Options that a descriptor's text form does not
need are passed over; `protobuf` notices by printing and reading again whether anything was lost.

Knows nothing of imports or compatibility. Raises Refused.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb

from hutong.registry.values import invalid_schema

DEPTH_MAX: Final = 32
TOKENS_MAX: Final = 200_000
_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*|\.[A-Za-z_][A-Za-z0-9_.]*)"""
    r"""|(?P<sign>[{}\[\]()<>;=,:/+-])""",
    re.DOTALL,
)
_Field: Any = pb.FieldDescriptorProto
SCALARS: Final[dict[str, int]] = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _Field.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
LABELS: Final[dict[str, int]] = {
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}
_RANGE_END: Final = 2**29  # of field numbers, exclusive
_PROTOBUFS_OWN: Final = range(19_000, 20_000)
_ENUM_END: Final = 2**31 - 1
_CLOSING: Final = {"{": "}", "[": "]", "<": ">", "(": ")"}


class ProtoReader:
    """Reads one file."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self.file = pb.FileDescriptorProto()

    def read(self) -> Any:
        """Raises Refused."""
        while self._peek():
            self._statement()
        return self.file

    # Statements of a file.

    def _statement(self) -> None:
        word = self._next()
        readers: dict[str, Callable[[], None]] = {
            ";": lambda: None,
            "syntax": self._syntax,
            "package": self._package,
            "import": self._import,
            "option": lambda: self._option(self.file.options),
            "message": lambda: self._message(self.file.message_type.add()),
            "enum": lambda: self._enum(self.file.enum_type.add()),
            "service": lambda: self._service(self.file.service.add()),
            "extend": lambda: self._extend(self.file.extension, None),
        }
        if word not in readers:
            raise _refuse(f"a file has no statement {word!r}")
        readers[word]()

    def _syntax(self) -> None:
        self._expect("=")
        syntax = self._text()
        if syntax not in ("proto2", "proto3"):
            raise _refuse(f"the syntax {syntax!r} is not known")
        if syntax == "proto3":
            self.file.syntax = syntax
        self._expect(";")

    def _package(self) -> None:
        self.file.package = self._name()
        self._expect(";")

    def _import(self) -> None:
        kind = self._next() if self._peek() in ("public", "weak") else ""
        index = len(self.file.dependency)
        self.file.dependency.append(self._text())
        if kind == "public":
            self.file.public_dependency.append(index)
        self._expect(";")

    # Messages.

    def _message(self, message: Any) -> None:
        message.name = self._name()
        self._body(message)

    def _body(self, message: Any) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise _refuse(f"messages are nested more than {DEPTH_MAX} deep")
        self._expect("{")
        while not self._skip("}"):
            self._member(message)
        self._close_optionals(message)
        self._depth -= 1

    def _member(self, message: Any) -> None:
        word, follows = self._peek(), self._peek(1)
        blocks: dict[str, Callable[[], None]] = {
            "message": lambda: self._message(message.nested_type.add()),
            "enum": lambda: self._enum(message.enum_type.add()),
            "oneof": lambda: self._oneof(message),
            "extend": lambda: self._extend(message.extension, message),
        }
        # Words are no keywords: a field may have a type of that name.
        if word in blocks and self._peek(2) == "{":
            self._next()
            blocks[word]()
        elif word == ";":
            self._next()
        elif word == "option" and (follows == "(" or self._peek(2) in ("=", "(")):
            self._next()
            self._option(message.options)
        elif word == "reserved":
            self._next()
            self._reserved(message, _RANGE_END, is_exclusive=True)
        elif word == "extensions":
            self._next()
            for first, last in self._ranges(_RANGE_END - 1):
                message.extension_range.add(start=first, end=last + 1)
            self._skip_options()
            self._expect(";")
        elif word == "map" and follows == "<":
            self._map(message)
        else:
            self._field(message.field.add(), message)

    def _field(self, field: Any, message: Any) -> None:
        label = self._next() if self._peek() in LABELS else ""
        if label == "optional" and self.file.syntax == "proto3" and message is not None:
            field.proto3_optional = True
        field.label = LABELS[label or "optional"]
        kind = self._next()
        if kind == "group":
            raise _refuse("groups are not read; use a message")
        if kind in SCALARS:
            field.type = SCALARS[kind]
        else:
            field.type_name = _checked_name(kind)
        self._named_number(field)

    def _named_number(self, field: Any) -> None:
        field.name = self._name()
        self._expect("=")
        field.number = self._integer(_RANGE_END)
        if field.number in _PROTOBUFS_OWN:
            raise _refuse(f"the number {field.number} is protobuf's own")
        self._field_options(field)
        self._expect(";")

    def _map(self, message: Any) -> None:
        """A map is a repeated message with a key and a value, as protoc writes it."""
        self._next()
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        field = message.field.add(label=LABELS["repeated"])
        self._named_number(field)
        entry = message.nested_type.add(name=f"{_camel(field.name)}Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            part = entry.field.add(name=name, number=number, label=LABELS["optional"])
            if kind in SCALARS:
                part.type = SCALARS[kind]
            else:
                part.type_name = _checked_name(kind)
        field.type_name = entry.name

    def _oneof(self, message: Any) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._name())
        self._expect("{")
        while not self._skip("}"):
            if self._skip(";"):
                continue
            if self._peek() == "option":
                self._next()
                self._option(None)
                continue
            field = message.field.add()
            self._field(field, None)
            field.oneof_index = index

    def _close_optionals(self, message: Any) -> None:
        """An optional field of proto3 is in a oneof of its own, behind all others, as protoc writes it."""
        names = {each.name for each in message.field} | {each.name for each in message.oneof_decl}
        for field in message.field:
            if field.proto3_optional:
                name = f"_{field.name}"
                while name in names:
                    name = f"X{name}"
                names.add(name)
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=name)

    def _reserved(self, target: Any, maximum: int, *, is_exclusive: bool) -> None:
        if self._peek()[:1] in ('"', "'"):
            target.reserved_name.append(self._text())
            while self._skip(","):
                target.reserved_name.append(self._text())
        else:
            for first, last in self._ranges(maximum - is_exclusive):
                target.reserved_range.add(start=first, end=last + is_exclusive)
        self._expect(";")

    def _ranges(self, maximum: int) -> list[tuple[int, int]]:
        found = []
        while True:
            first = last = self._integer(maximum + 1)
            if self._skip("to"):
                last = maximum if self._skip("max") else self._integer(maximum + 1)
            found.append((first, last))
            if not self._skip(","):
                return found

    # Enums, services, extensions.

    def _enum(self, enum: Any) -> None:
        enum.name = self._name()
        self._expect("{")
        while not self._skip("}"):
            word = self._peek()
            if word == ";":
                self._next()
            elif word == "option" and self._peek(1) != "=":
                self._next()
                self._option(enum.options)
            elif word == "reserved" and self._peek(1) != "=":
                self._next()
                self._reserved(enum, _ENUM_END, is_exclusive=False)
            else:
                value = enum.value.add(name=self._name())
                self._expect("=")
                value.number = self._integer(_ENUM_END + 1)
                self._skip_options()
                self._expect(";")

    def _service(self, service: Any) -> None:
        service.name = self._name()
        self._expect("{")
        while not self._skip("}"):
            word = self._next()
            if word == "option":
                self._option(None)
            elif word == "rpc":
                self._method(service.method.add(name=self._name()))
            elif word != ";":
                raise _refuse(f"a service has no {word!r}")

    def _method(self, method: Any) -> None:
        self._expect("(")
        method.client_streaming = self._peek() == "stream" and self._peek(1) != ")" and self._skip("stream")
        method.input_type = _checked_name(self._next())
        self._expect(")")
        self._expect("returns")
        self._expect("(")
        method.server_streaming = self._peek() == "stream" and self._peek(1) != ")" and self._skip("stream")
        method.output_type = _checked_name(self._next())
        self._expect(")")
        for name in ("client_streaming", "server_streaming"):
            if not getattr(method, name):
                method.ClearField(name)
        if self._peek() == "{":
            self._pass_over()
        else:
            self._expect(";")

    def _extend(self, target: Any, message: Any) -> None:
        extendee = _checked_name(self._next())
        self._expect("{")
        while not self._skip("}"):
            field = target.add(extendee=extendee)
            self._field(field, message)

    # Options.

    def _option(self, options: Any) -> None:
        name = self._option_name()
        self._expect("=")
        if self._peek() == "{":
            self._pass_over()
        else:
            self._set_option(options, name, self._value())
        self._expect(";")

    def _field_options(self, field: Any) -> None:
        if not self._skip("["):
            return
        while True:
            name = self._option_name()
            self._expect("=")
            if self._peek() in ("{", "["):
                self._pass_over()
            elif name == "default":
                field.default_value = self._value()
            elif name == "json_name":
                field.json_name = self._text()
            else:
                self._set_option(field.options, name, self._value())
            if not self._skip(","):
                break
        self._expect("]")

    def _skip_options(self) -> None:
        if self._peek() == "[":
            self._pass_over()

    def _option_name(self) -> str:
        if self._peek() != "(":
            return self._name()
        self._pass_over()
        while self._peek() not in ("=", ""):
            self._next()
        return ""

    def _set_option(self, options: Any, name: str, value: str) -> None:
        """Set one of protobuf's own; those of others are passed over."""
        known = None if options is None or not name else options.DESCRIPTOR.fields_by_name.get(name)
        if known is None or known.is_repeated:
            return
        try:
            if known.cpp_type == known.CPPTYPE_BOOL:
                setattr(options, name, {"true": True, "false": False}[value])
            elif known.cpp_type == known.CPPTYPE_STRING:
                setattr(options, name, value)
            elif known.cpp_type == known.CPPTYPE_ENUM:
                setattr(options, name, known.enum_type.values_by_name[value].number)
        except (KeyError, TypeError, ValueError):
            raise _refuse(f"the option {name} has no value {value[:100]!r}") from None

    def _value(self) -> str:
        sign = self._next() if self._peek() in ("-", "+") else ""
        token = self._next()
        if token[:1] in ('"', "'"):
            parts = [_unquoted(token)]
            while self._peek()[:1] in ('"', "'"):
                parts.append(_unquoted(self._next()))
            return "".join(parts)
        return f"{sign.replace('+', '')}{token}"

    def _pass_over(self) -> None:
        """Pass over a bracket and all inside."""
        open_brackets = [_CLOSING[self._next()]]
        while open_brackets:
            token = self._next()
            if token in _CLOSING:
                open_brackets.append(_CLOSING[token])
            elif token == open_brackets[-1]:
                open_brackets.pop()

    # Tokens.

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise _refuse("it ends too early")
        self._at += 1
        return token

    def _skip(self, wanted: str) -> bool:
        if self._peek() != wanted:
            return False
        self._at += 1
        return True

    def _expect(self, wanted: str) -> None:
        token = self._next()
        if token != wanted:
            raise _refuse(f"{wanted!r} is expected instead of {token[:50]!r}")

    def _name(self) -> str:
        return _checked_name(self._next())

    def _text(self) -> str:
        token = self._next()
        if token[:1] not in ('"', "'"):
            raise _refuse(f"a text is expected instead of {token[:50]!r}")
        return _unquoted(token)

    def _integer(self, end: int) -> int:
        sign = -1 if self._skip("-") else 1
        token = self._next()
        try:
            # Digits are bounded first: `int` is slow for long texts.
            number = int(token, 0 if token[:2] in ("0x", "0X") else 8 if token[:1] == "0" and token != "0" else 10)
        except ValueError:
            number = end
        if len(token) > 20 or number >= end + (sign < 0):
            raise _refuse(f"{token[:50]!r} is no number here")
        return sign * number


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _refuse(f"it has {text[at : at + 20]!r}, which belongs nowhere")
        at = match.end()
        if match.lastgroup is not None:
            found.append(match.group())
            if len(found) > TOKENS_MAX:
                raise _refuse(f"it has more than {TOKENS_MAX} words")
    return found


def _checked_name(token: str) -> str:
    if not (token[:1].isalpha() or token[:1] in ("_", ".")):
        raise _refuse(f"a name is expected instead of {token[:50]!r}")
    return token


def _unquoted(token: str) -> str:
    try:
        return token[1:-1].encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1").decode()
    except (UnicodeError, ValueError):
        raise _refuse("a text has an escape that is none") from None


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _refuse(why: str) -> Exception:
    return invalid_schema(why)
