"""Messages to bytes and back: one function per API, version and direction, compiled from the tables at first use.

A decoder raises ProtocolError and nothing else, for all bytes.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from hutong.wire.buffer import Buffer
from hutong.wire.kafka.codec.decoder_source import decoder_source
from hutong.wire.kafka.codec.encoder_source import encoder_source
from hutong.wire.kafka.registry import UnsupportedVersion, api
from hutong.wire.kafka.schema import MessageInfo, message_info

Message: TypeAlias = Any
"""An instance of one of the tables in `hutong.wire.kafka.apis`."""

Decoder: TypeAlias = Callable[[Buffer, int], Message]
Encoder: TypeAlias = Callable[[Message, list[Buffer]], None]

ELEMENTS_MAX: Final = 200_000
"""Of all arrays of a request together, where its reader sets no bound of its own: a byte can become a large object."""


def decoder(table: type[Any], version: int, elements_max: int | None = None) -> Decoder:
    """The compiled `decode(data, position) -> message`, which takes all bytes from `position` to the end."""
    info = _supported(table, version)
    function = f"decode_{info.name}_v{version}"
    return decoder_source(table, info, version, function, elements_max).compile(function)


def encoder(table: type[Any], version: int) -> Encoder:
    """The compiled `encode(message, out)`, which appends buffers to `out`; records pass through uncopied."""
    info = _supported(table, version)
    function = f"encode_{info.name}_v{version}"
    return encoder_source(table, info, version, function).compile(function)


def _supported(table: type[Any], version: int) -> MessageInfo:
    info = message_info(table)
    if version not in info.versions:
        raise UnsupportedVersion(info.api_key, version)
    return info


class _Compiled(dict[tuple[int, ...], Callable[..., Any]]):
    """(API key, version) to function, of requests also by their bound; filled as versions are met.

    So the hot path pays for one look-up.
    """

    def __init__(self, build: Callable[..., Callable[..., Any]]) -> None:
        self._build = build

    def __missing__(self, key: tuple[int, ...]) -> Callable[..., Any]:
        function = self[key] = self._build(*key)
        return function


_request_decoders = _Compiled(lambda key, version, elements_max: decoder(api(key).request, version, elements_max))
_request_encoders = _Compiled(lambda key, version: encoder(api(key).request, version))
# Answers have no bound on their elements: we choose the brokers that we ask.
_response_decoders = _Compiled(lambda key, version: decoder(api(key).response, version))
_response_encoders = _Compiled(lambda key, version: encoder(api(key).response, version))


def request_decoder(api_key: int, api_version: int, elements_max: int = ELEMENTS_MAX) -> Decoder:
    """The function itself, for the hot path. Raises UnknownApi or UnsupportedVersion."""
    return _request_decoders[api_key, api_version, elements_max]


def response_encoder(api_key: int, api_version: int) -> Encoder:
    """The function itself, for the hot path. Raises UnknownApi or UnsupportedVersion."""
    return _response_encoders[api_key, api_version]


def decode_request(api_key: int, api_version: int, body: Buffer, offset: int = 0) -> Message:
    """Raises ProtocolError: UnknownApi, UnsupportedVersion, or bytes that are not exactly one such request."""
    return _request_decoders[api_key, api_version, ELEMENTS_MAX](body, offset)


def encode_request(message: Message, api_version: int) -> list[Buffer]:
    out: list[Buffer] = []
    _request_encoders[message_info(type(message)).api_key, api_version](message, out)
    return out


def decode_response(api_key: int, api_version: int, body: Buffer, offset: int = 0) -> Message:
    """Raises ProtocolError: UnknownApi, UnsupportedVersion, or bytes that are not exactly one such response."""
    return _response_decoders[api_key, api_version](body, offset)


def encode_response(message: Message, api_version: int) -> list[Buffer]:
    out: list[Buffer] = []
    _response_encoders[message_info(type(message)).api_key, api_version](message, out)
    return out
