"""One of the two servers: sends a step's bytes, takes what comes, and learns what the server made up itself.

Strategy: a request is built once with symbols (`values.py`); here each symbol becomes what this server said, and in the
response what this server said becomes the symbol again, so that both responses can be compared as they are. A response
is a tree of plain values; a closed connection and silence are answers too.
"""

import contextlib
import dataclasses
import re
import socket
import struct
from typing import Any, Final, TypeAlias

from crc32c import crc32c
from tests.compat.differential.values import SESSION_SYMBOL_BASE, SYMBOL_BASE, topic_id

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest
from hutong.wire.kafka.batch.records import iterate_batches
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame
from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.schema import message_info, rows_of

Tree: TypeAlias = Any
"""What JSON can hold, and bytes."""

CLOSED: Final = "the connection was closed"
SILENT: Final = "no answer"
ANSWER_S_MAX: Final = 2.0
_MEMBER_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CLIENT_ID: Final = "differ"


class Side:
    """One server under the script."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._socket: socket.socket | None = None
        self._correlation_id = 0
        self._real: dict[Any, Any] = {}  # symbol -> what this server said
        self._symbols: dict[tuple[str, Any], Any] = {}  # (kind, what this server said) -> symbol

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, number: int, message: Any, version: int) -> Tree:
        """The response to one request as a tree of symbols and plain values; `number` names what it brings into being.

        CLOSED or SILENT where there is none; the next request then has a connection of its own.
        """
        self.send(message, version)
        return self.answer(number, message, version)

    def send(self, message: Any, version: int) -> None:
        """The first half of `ask`. A request without a response, acks=0, cannot be compared."""
        request = self._with_real_values(message)
        self._send(b"".join(encode_request_frame(request, version, self._next_correlation_id(), _CLIENT_ID)))

    def answer(self, number: int, message: Any, version: int) -> Tree:
        """The second half of `ask`."""
        api = APIS[message_info(type(message)).api_key]
        answer = self._receive_frame()
        if isinstance(answer, str):
            return answer
        try:
            _, offset = decode_response_header(memoryview(answer), api.key, version)
            response = codecs.decode_response(api.key, version, memoryview(answer), offset)
        except ProtocolError as error:
            return f"not decodable: {error}"
        self._learn(number, message, response)
        return self._tree(response, version)

    def exchange(self, frame: bytes) -> bytes | str:
        """The body of the response frame, or CLOSED, or SILENT."""
        self._send(frame)
        return self._receive_frame()

    def _send(self, frame: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, ANSWER_S_MAX)
            self._socket.settimeout(ANSWER_S_MAX)
        with contextlib.suppress(OSError):  # told by what is received, or not
            self._socket.sendall(frame)

    def _receive_frame(self) -> bytes | str:
        try:
            size = struct.unpack(">i", self._receive(4))[0]
            return self._receive(size)
        except TimeoutError:
            self.close()
            return SILENT
        except OSError:
            self.close()
            return CLOSED

    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions; learns their ids."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        frame = b"".join(encode_request_frame(request, 12, self._next_correlation_id(), _CLIENT_ID))
        answer = self.exchange(frame)
        assert isinstance(answer, bytes), answer
        _, offset = decode_response_header(memoryview(answer), 3, 12)
        response = codecs.decode_response(3, 12, memoryview(answer), offset)
        for topic in response.topics:
            self._name("topic_id", topic.topic_id, topic_id(topic.name))
        return {topic.name: len(topic.partitions) for topic in response.topics}

    # -- inside

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(size - len(received))
            if not piece:
                raise OSError("closed")
            received += piece
        return bytes(received)

    def _next_correlation_id(self) -> int:
        self._correlation_id += 1
        return self._correlation_id

    def _name(self, kind: str, real: Any, symbol: Any) -> None:
        self._real[symbol] = real
        self._symbols[kind, real] = symbol

    def _learn(self, number: int, request: Any, response: Any) -> None:
        member_id = getattr(response, "member_id", "")
        if member_id and not getattr(request, "member_id", ""):
            self._name("member_id", member_id, f"@member-{number}")
        producer_id = getattr(response, "producer_id", -1)
        if producer_id >= 0 and ("producer_id", producer_id) not in self._symbols:
            self._name("producer_id", producer_id, SYMBOL_BASE + number)
        session_id = getattr(response, "session_id", 0)
        if session_id and ("session_id", session_id) not in self._symbols:
            self._name("session_id", session_id, SESSION_SYMBOL_BASE + number)

    def _with_real_values(self, value: Any) -> Any:
        """A copy with symbols replaced; one that this server never gave a value to stays as it is."""
        if isinstance(value, list):
            return [self._with_real_values(item) for item in value]
        if dataclasses.is_dataclass(value):
            table: Any = type(value)
            copied = table()
            for name, _ in rows_of(table):
                object.__setattr__(copied, name, self._with_real_values(getattr(value, name)))
            return copied
        if isinstance(value, memoryview):
            return self._batch_with_real_producer(value)
        try:
            return self._real.get(value, value)
        except TypeError:
            return value

    def _batch_with_real_producer(self, batch: memoryview) -> memoryview:
        """A batch whose producer is a symbol gets the real one, and a checksum to match."""
        if len(batch) < 61 or batch[16] != 2:
            return batch
        (producer_id,) = struct.unpack_from(">q", batch, 43)
        if producer_id < SYMBOL_BASE or producer_id not in self._real:
            return batch
        changed = bytearray(batch)
        struct.pack_into(">q", changed, 43, self._real[producer_id])
        struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
        return memoryview(bytes(changed))

    def _tree(self, value: Any, version: int, name: str = "") -> Tree:
        if dataclasses.is_dataclass(value):
            rows = [(key, row) for key, row in rows_of(type(value)) if version in row.versions]
            return {key: self._tree(getattr(value, key), version, key) for key, _ in rows}
        if isinstance(value, list) and value and isinstance(value[0], memoryview):
            return self._with_symbolic_producers(b"".join(value))
        if isinstance(value, list):
            items = [self._tree(item, version, name) for item in value]
            return sorted(_once(items), key=repr)
        if isinstance(value, memoryview):
            return self._with_symbolic_producers(bytes(value)) if name == "records" else bytes(value)
        return self._symbolic(value, name)

    def _with_symbolic_producers(self, data: bytes) -> bytes:
        """Batches whose producer got its id from this server show the symbol, and no checksum; markers no time."""
        batches = bytearray(data)
        position = 0
        for header, _ in iterate_batches(memoryview(data)):
            symbol = self._symbols.get(("producer_id", header.producer_id))
            if symbol is not None:
                struct.pack_into(">q", batches, position + 43, symbol)
                struct.pack_into(">I", batches, position + 17, 0)
            if header.is_control:
                struct.pack_into(">qq", batches, position + 27, 0, 0)
                struct.pack_into(">I", batches, position + 17, 0)
            position += header.size
        return bytes(batches)

    def _symbolic(self, value: Any, name: str) -> Any:
        kind = "member_id" if name in {"leader", "member_id"} else name
        with contextlib.suppress(TypeError):
            if (kind, value) in self._symbols:
                return self._symbols[kind, value]
        if isinstance(value, str):
            return _MEMBER_ID.sub("<unique>", value)
        return value


def _once(items: list[Tree]) -> list[Tree]:
    """A topic that an answer names in several places is one with all its partitions."""
    topics: dict[tuple[Any, Any], Tree] = {}
    others = []
    for item in items:
        if (
            isinstance(item, dict)
            and isinstance(item.get("partitions"), list)
            and ("topic" in item or "topic_id" in item)
        ):
            known = topics.setdefault((item.get("topic"), item.get("topic_id")), item)
            if known is not item:
                known["partitions"] = sorted([*known["partitions"], *item["partitions"]], key=repr)
        else:
            others.append(item)
    return [*topics.values(), *others]
