"""One blocking connection to one broker: requests go out in order, responses come back in the same order.

Sending and receiving are apart, so that a caller can ask for the next record set before it decodes the present one. A
response is received into one buffer that is used again for the next: the views in a decoded message hold until then.

Knows nothing of clusters, retries or what the messages mean.
"""

import select
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ProtocolError
from hutong.pipelines.client.tls import denial, last_words
from hutong.pipelines.errors import AccessDenied, Unavailable
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsRequest
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.codec.codecs import Message
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame
from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.schema import message_info

CLIENT_ID = "hutong-pipelines"
FRAME_BYTES_MAX = 512 * 2**20
"""A larger response is taken for garbage: fetches ask for far less."""
BUFFER_BYTES_FIRST = 64 * 2**10
BUFFER_GROWTH = 4
JOINED_BYTES_MAX = 64 * 2**10
"""Requests up to this size are sent as one buffer; larger ones, which carry records, without copying them."""
TLS_ALERT = b"\x15\x03"
"""The first bytes of a TLS port's answer to a plain request (RFC 8446, section 5.1)."""
SESSION_USED = 0.85
"""The share of a login's time after which a connection is no longer taken for something new."""

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 2, 3, 18, 22
DESCRIBE_LOG_DIRS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 35, 17, 36
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 65, 66
VERSION_MAX: Mapping[int, int] = {
    PRODUCE: 12,  # from 13 on, topics are named by id in both
    FETCH: 12,
    LIST_OFFSETS: 9,
    METADATA: 12,
    OFFSET_COMMIT: 8,  # from 9 on, members of the new protocol commit, too
    OFFSET_FETCH: 8,
    FIND_COORDINATOR: 4,
    INIT_PRODUCER_ID: 4,
    DESCRIBE_LOG_DIRS: 4,
    SASL_HANDSHAKE: 1,
    SASL_AUTHENTICATE: 2,
    ADD_PARTITIONS_TO_TXN: 3,  # from 4 on, brokers ask
    ADD_OFFSETS_TO_TXN: 3,
    END_TXN: 4,  # from 5 on, the end raises the epoch; here the next begin does
    TXN_OFFSET_COMMIT: 3,
    DESCRIBE_TRANSACTIONS: 0,
    LIST_TRANSACTIONS: 0,
}
"""The highest version of each API that is used here."""


class _Sent(NamedTuple):
    """A request whose response has not come."""

    api_key: int
    version: int
    correlation_id: int


class BrokerConnection:
    """A connected socket that speaks Kafka. Any failure closes it: what is in flight is then unknown.

    Every method raises Unavailable when the broker does not answer in time or goes away, AccessDenied when a TLS alert
    refuses us, ProtocolError for malformed answers.
    """

    def __init__(self, transport: socket.socket, peer: str) -> None:
        self.peer = peer
        self._transport = transport
        self._sent: deque[_Sent] = deque()
        self._next_correlation_id = 0
        self._buffer = bytearray(BUFFER_BYTES_FIRST)
        self._versions: dict[int, tuple[int, int]] = {}
        self._clock: Clock | None = None
        self._ends_ms = 0
        """The end of the SASL session by `_clock`, if there is one."""

    @property
    def is_idle(self) -> bool:
        """Open, without a response outstanding, and logged in for a while yet."""
        is_over = self._clock is not None and self._clock.monotonic_ms() >= self._ends_ms
        return not self._sent and self._transport.fileno() >= 0 and not is_over

    @property
    def has_answer(self) -> bool:
        """Return True if `receive` would find data or an error. A whole answer may need more data."""
        if self._transport.fileno() < 0 or (isinstance(self._transport, ssl.SSLSocket) and self._transport.pending()):
            return True
        poller = select.poll()
        poller.register(self._transport, select.POLLIN)
        return bool(poller.poll(0))

    def ends_after(self, session_ms: int, clock: Clock) -> None:
        """The broker closes the connection when it is used later than that (KIP-368); 0 is never."""
        if session_ms > 0:
            self._clock, self._ends_ms = clock, clock.monotonic_ms() + int(session_ms * SESSION_USED)

    def negotiate(self) -> None:
        """Asks which API versions the broker speaks. Must come first."""
        response = self.request(ApiVersionsRequest(), 0)
        if response.error_code != ErrorCode.NONE:
            raise ProtocolError(f"the broker at {self.peer} refused to tell its versions ({response.error_code})")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def speaks(self, api_key: int) -> bool:
        """Return True if the broker supports the API."""
        return api_key in self._versions

    def version_of(self, api_key: int) -> int:
        """The highest version of an API that both sides speak."""
        lowest, highest = self._versions.get(api_key, (0, -1))
        version = min(highest, VERSION_MAX[api_key])
        if version < max(lowest, APIS[api_key].versions.start):
            raise ProtocolError(f"the broker at {self.peer} speaks no common version of Kafka's API {api_key}")
        return version

    def request(self, message: Message, version: int | None = None) -> Message:
        """Send and wait for the answer."""
        self.send(message, version)
        return self.receive()

    def send(self, message: Message, version: int | None = None) -> None:
        """Send without waiting; each `send` must be followed by one `receive`."""
        api_key = message_info(type(message)).api_key
        sent = _Sent(api_key, self.version_of(api_key) if version is None else version, self._next_correlation_id)
        buffers = encode_request_frame(message, sent.version, sent.correlation_id, CLIENT_ID)
        try:
            self._send_all(buffers)
        except OSError as error:
            raise self._lost(error) from error
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFF_FFFF
        self._sent.append(sent)

    def receive(self) -> Message:
        """The answer to the oldest request. Views in it hold until the next call."""
        try:
            frame = self._receive_frame()
        except OSError as error:
            raise self._lost(error) from error
        sent = self._sent.popleft()
        try:
            correlation_id, body = decode_response_header(frame, sent.api_key, sent.version)
            if correlation_id != sent.correlation_id:
                raise ProtocolError(f"the broker at {self.peer} answered a request that was not made")
            return codecs.decode_response(sent.api_key, sent.version, frame, body)
        except ProtocolError:
            self.close()
            raise

    def close(self) -> None:
        """Drop the connection and all requests in flight."""
        self._transport.close()

    def _send_all(self, buffers: list[Buffer]) -> None:
        if sum(map(len, buffers)) <= JOINED_BYTES_MAX:
            self._transport.sendall(b"".join(buffers))
            return
        for buffer in buffers:
            self._transport.sendall(buffer)

    def _receive_frame(self) -> memoryview:
        self._receive_into(memoryview(self._buffer)[:4])
        size = int.from_bytes(self._buffer[:4], "big", signed=True)
        if not self._versions and self._buffer.startswith(TLS_ALERT):
            self.close()
            raise AccessDenied(f"the port {self.peer} speaks TLS alone: set kafka.security.protocol to SSL or SASL_SSL")
        if not 0 <= size <= FRAME_BYTES_MAX:
            self.close()
            raise ProtocolError(f"the broker at {self.peer} announced a response of {size} bytes: is it a Kafka port?")
        received = 0
        while received < size:
            if received == len(self._buffer):
                self._grow(size)
            until = min(size, len(self._buffer))
            self._receive_into(memoryview(self._buffer)[received:until])
            received = until
        return memoryview(self._buffer)[:size]

    def _grow(self, size_max: int) -> None:
        """With what really came, not to the size announced. A new buffer: views into the old may be alive."""
        grown = bytearray(min(size_max, BUFFER_GROWTH * len(self._buffer)))
        grown[: len(self._buffer)] = self._buffer
        self._buffer = grown

    def _receive_into(self, view: memoryview) -> None:
        while view:
            count = self._transport.recv_into(view)
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            view = view[count:]

    def _lost(self, error: OSError) -> Unavailable | AccessDenied:
        denied = denial(last_words(self._transport, error), self.peer)
        self.close()
        if denied is not None:
            return denied
        reason = "did not answer in time" if isinstance(error, TimeoutError) else f"went away: {error}"
        return Unavailable(f"the broker at {self.peer} {reason}")
