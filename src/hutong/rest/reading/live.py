"""GET the records of a topic as they come: as server-sent events (HTML, 9.2), or as messages of a WebSocket.

Each has an id with the next position of every partition. A client that comes again sends the last one, and misses
nothing: EventSource does so by itself.

Decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from hutong.rest.limits import CALL_S_MAX, LIVE_BATCH_MAX, LIVE_PARTITIONS_MAX
from hutong.rest.reading.reader import RecordReader
from hutong.web.answers import SocketAnswer, StreamedAnswer, WebRefusal
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from hutong.bus.durable.records import StoredRecord
    from hutong.rest.accounts import Account
    from hutong.rest.gateway import Gateway
    from hutong.rest.reading.showing import RecordViews
    from hutong.web.requests import WebRequest

EVENTS: Final = "text/event-stream"
_WAIT_S: Final = 1.0
"""Of a thread for the next record. A client that has gone holds its consumer for so long."""
_QUIET_ROUNDS: Final = 15
_COMMENT: Final = b": nothing came\n\n"  # so that proxies keep the connection, and the gateway notices its end
_OFFSET_DIGITS_MAX: Final = 18
Positions = dict[int, int]
T = TypeVar("T")
LiveRecord = tuple[bytes, bytes]
"""The id, and the record as JSON."""
ReadBatch = Callable[[], "Awaitable[list[StoredRecord]]"]
ShowBatch = Callable[["list[StoredRecord]"], "Awaitable[list[LiveRecord]]"]


class LiveRecords:
    """The route that streams."""

    def __init__(self, gateway: Gateway, views: RecordViews) -> None:
        self._gateway = gateway
        self._views = views

    def routes(self) -> list[WebRoute]:
        return [WebRoute("GET", "/v3/clusters/{cluster}/topics/{topic}/records", self.follow)]

    async def follow(self, request: WebRequest) -> StreamedAnswer | SocketAnswer:
        """Stream from `from` on, latest or earliest, or from behind the id `after`, or Last-Event-ID."""
        account = await self._gateway.checked(request)
        request.check_query("from", "format", "after")
        form = self._views.form_of(request)
        begin = {"latest": OFFSET_END, "earliest": OFFSET_BEGINNING}.get(request.query.get("from", "latest"))
        if begin is None:
            raise WebRefusal(400, "from is latest or earliest")
        # A browser cannot give its WebSocket a header.
        seen = decode_positions(request.headers.get("last-event-id") or request.query.get("after", ""))
        self._gateway.take_reader(account)
        try:
            opened = partial(_open, account, request.text("topic"), begin, seen)
            reader, positions = await self._gateway.blocking(opened)
        except BaseException:  # the client may have gone meanwhile, which cancels
            self._gateway.give_reader_back(account)
            raise
        read = partial(self._gateway.blocking, partial(reader.read, LIVE_BATCH_MAX, _WAIT_S))
        close = partial(self._gateway.close_soon, account, reader)

        async def live(records: list[StoredRecord]) -> list[LiveRecord]:
            shown = await self._views.shown(records, form, request)
            return [_live(record, positions, as_json) for record, as_json in zip(records, shown, strict=True)]

        if "upgrade" in request.headers:
            return SocketAnswer(_LiveParts(read, live, _messages, close))
        return StreamedAnswer(_LiveParts(read, live, _events, close), EVENTS)


class _LiveParts(Generic[T]):
    """The parts of an answer, made of records as they come. `close` is called once, also where nothing was asked for.

    A generator would not do: one that is closed before its first part never runs, and its consumer would stay.
    """

    def __init__(
        self, read: ReadBatch, live: ShowBatch, encode: Callable[[list[LiveRecord]], list[T]], close: Callable[[], None]
    ) -> None:
        self._read = read
        self._live = live
        self._encode = encode
        self._close: Callable[[], None] | None = close
        self._ready: deque[T] = deque()

    def __aiter__(self) -> _LiveParts[T]:
        return self

    async def __anext__(self) -> T:
        quiet = 0
        while not self._ready:
            found = await self._read()
            quiet += 1
            if found or quiet >= _QUIET_ROUNDS:
                self._ready.extend(self._encode(await self._live(found)))
        return self._ready.popleft()

    async def aclose(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            close()


def _events(records: list[LiveRecord]) -> list[bytes]:
    return [b"".join([b"id: %b\nevent: record\ndata: %b\n\n" % record for record in records]) or _COMMENT]


def _messages(records: list[LiveRecord]) -> list[str | None]:
    # A ping after a while without records, so that the connection counts as used.
    return [f'{{"id":"{id.decode()}","record":{record.decode()}}}' for id, record in records] or [None]


def _live(record: StoredRecord, positions: Positions, shown: dict[str, Any]) -> LiveRecord:
    positions[record.partition] = record.offset + 1
    return encode_positions(positions), msgspec.json.encode(shown)


def encode_positions(positions: Positions) -> bytes:
    """Positions by partition as text: `0:17,1:4`. Those that are not known yet are left out."""
    return ",".join([f"{partition}:{offset}" for partition, offset in positions.items() if offset >= 0]).encode()


def decode_positions(text: str) -> Positions:
    """Raises WebRefusal(400) for a text that no event had."""
    found: Positions = {}
    for part in text.split(",", LIVE_PARTITIONS_MAX + 1) if text else ():
        partition, colon, offset = part.partition(":")
        if not colon or not _is_number(partition) or not _is_number(offset):
            raise WebRefusal(400, "Last-Event-ID is none of this stream's")
        found[int(partition)] = int(offset)
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _OFFSET_DIGITS_MAX


def _open(account: Account, topic: str, begin: int, seen: Positions) -> tuple[RecordReader, Positions]:
    # Records that retention deletes while the client is away are passed over, as a consumer group does.
    reader = RecordReader(account.properties, **{"auto.offset.reset": "earliest"})
    try:
        partitions = reader.partitions(topic)
        if len(partitions) > LIVE_PARTITIONS_MAX:
            raise WebRefusal(422, f"a topic with more than {LIVE_PARTITIONS_MAX} partitions is not streamed", 42202)
        positions = {partition: _position(reader, topic, partition, begin, seen) for partition in partitions}
        reader.assign([TopicPartition(topic, partition, offset) for partition, offset in positions.items()])
        return reader, positions
    except BaseException:
        reader.close()
        raise


def _position(reader: RecordReader, topic: str, partition: int, begin: int, seen: Positions) -> int:
    if partition in seen:
        return seen[partition]
    low, high = reader.consumer.get_watermark_offsets(TopicPartition(topic, partition), CALL_S_MAX)
    # A partition that is new since the client's last event has nothing that it has seen.
    return int(high) if begin == OFFSET_END and not seen else int(low)
