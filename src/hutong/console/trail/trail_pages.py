"""The route of a record's way, as a stream of hops.

Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from hutong.console.dead_letters.conventions.known import UNKNOWN, letter_of
from hutong.console.limits import TRAIL_TEXT_CHARACTERS_MAX, TRAIL_TOPIC_MS_MAX, TRAIL_TOPICS_MAX
from hutong.console.records.reading.part_reader import PartReader
from hutong.console.records.reading.places import begins_of, ends_of, partitions_of
from hutong.console.rights import READ_NODE, has_right
from hutong.console.routes import ConsoleRoute
from hutong.console.streams import Rounds, event, streamed
from hutong.console.trail.batches import TrailBatches
from hutong.console.trail.clues import HEADER, KEY, KINDS, PLACE, TRACE, Clue, trace_of
from hutong.console.trail.machine import Hop, TrailMachine
from hutong.console.trail.readers import GroupPositions, group_positions, readers_of
from hutong.rest.limits import CALL_S_MAX
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.budget import ReadBudget
    from hutong.rest.accounts import Account
    from hutong.web.answers import StreamedAnswer
    from hutong.web.requests import WebRequest

_BATCH: Final = 500
_WAIT_S: Final = 0.2
_INTERNAL: Final = "__"
_OFFSET_MAX: Final = (1 << 63) - 1


class TrailPages:
    """The route of `/api/trail`."""

    def __init__(self, desk: ConsoleDesk, budget: ReadBudget) -> None:
        self._desk = desk
        self._budget = budget

    def routes(self) -> list[ConsoleRoute]:
        return [ConsoleRoute("GET", "/api/trail", self.follow)]

    async def follow(self, request: WebRequest) -> StreamedAnswer:
        """Stream the hops that a clue finds in the topics of the query, or in all of them."""
        account, clue = await self._desk.account(request), asked_clue(request)
        topics = [name for name in request.query.get("topics", "").split(",") if name]
        if not topics:
            topics = await self._desk.blocking(lambda: _all_topics(account))
        is_cut = len(topics) > TRAIL_TOPICS_MAX
        pipelines = self._desk.outer.pipelines
        if pipelines is not None and not await has_right(self._desk, request, READ_NODE):
            pipelines = None
        self._desk.gateway.take_reader(account)
        machine, batches = TrailMachine(clue, topics[:TRAIL_TOPICS_MAX]), TrailBatches(pipelines)
        trail = _Trail(account, machine, batches, self._desk, self._budget, is_cut)
        return streamed(Rounds(trail.step, self._desk.pause, 0, trail.close))


class _Trail:
    """A trail, its consumer, and the groups that read what it finds."""

    def __init__(
        self,
        account: Account,
        machine: TrailMachine,
        batches: TrailBatches,
        desk: ConsoleDesk,
        budget: ReadBudget,
        is_cut: bool,
    ) -> None:
        self._account = account
        self._machine = machine
        self._batches = batches
        self._desk = desk
        self._budget = budget
        self._is_cut = is_cut
        self._reader: PartReader | None = None
        self._groups: list[GroupPositions] | None = None
        self._topic: str | None = None
        self._until_ms = 0

    async def step(self) -> Iterable[bytes] | None:
        """The events of one read; None at the end."""
        await self._budget.wait()
        return await self._desk.blocking(self._read)

    def close(self) -> None:
        account = self._account
        if self._reader is None:
            self._desk.gateway.give_reader_back(account)
        else:
            self._desk.gateway.close_soon(account, self._reader)

    def _read(self) -> list[bytes] | None:
        if self._groups is None:
            self._groups, some_left = group_positions(self._account)
            self._is_cut = self._is_cut or some_left
            self._reader = PartReader(self._account.properties, self._desk.masks)
            self._topic = self._machine.next_topic()
            self._begin()
        if self._topic is None:
            return None
        assert self._reader is not None
        hops: list[Hop] = []
        if not self._machine.is_topic_done:
            records, ended = self._reader.read_parts(_BATCH, _WAIT_S)
            self._budget.count(sum(each.size_bytes for each in records))
            hops = self._machine.receive(records)
            self._batches.add(hops)
            for partition in ended:
                self._machine.reach_end(partition)
            if self._desk.clock.monotonic_ms() > self._until_ms:
                self._machine.abandon_topic()
        events = [event("hop", self._shown(hop)) for hop in hops]
        if self._machine.is_topic_done:
            self._topic = self._machine.next_topic()
            self._begin()
        if self._topic is None:
            events += self._batches.tell()
        progress = asdict(self._machine.progress())
        progress |= {
            "is_cut": progress["is_cut"] or self._is_cut or self._batches.is_cut,
            "is_ended": self._topic is None,
        }
        return [*events, event("progress", progress)]

    def _begin(self) -> None:
        """Begin to read the topic; one that this user cannot read is passed over."""
        topic, reader = self._topic, self._reader
        if topic is None or reader is None:
            return
        self._until_ms = self._desk.clock.monotonic_ms() + TRAIL_TOPIC_MS_MAX
        try:
            partitions = partitions_of(self._account, topic)
            begins = begins_of(self._account, topic, partitions)
            ends = ends_of(self._account, topic, partitions)
        except (KafkaException, WebRefusal):
            self._machine.abandon_topic()
            return
        places = self._machine.begin_topic({each: (begins[each], ends[each]) for each in partitions})
        if places:
            reader.begin(topic, places)

    def _shown(self, hop: Hop) -> dict[str, Any]:
        record, letter = hop.record, letter_of(hop.record)
        return {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "reason": hop.reason,
            "key": _text(record.key),
            "value": _text(record.value),
            "size_bytes": record.size_bytes,
            "trace": trace_of(record),
            "letter": None if letter.convention == UNKNOWN else {**asdict(letter), "reason": letter.reason},
            "readers": readers_of(self._groups or (), (record.topic, record.partition), record.offset),
        }


def asked_clue(request: WebRequest) -> Clue:
    """The clue in the query. Raises WebRefusal(400)."""
    query = request.query
    given = [kind for kind in KINDS if kind in query]
    if len(given) != 1:
        raise WebRefusal(400, f"Give one of {', '.join(KINDS)}.")
    kind, text = given[0], query[given[0]]
    try:
        if kind == PLACE:
            partition, offset = (request.integer(name, 0, 0, _OFFSET_MAX) for name in ("partition", "offset"))
            return Clue(PLACE, name=text, partition=partition, offset=offset)
        if kind == HEADER:
            name, colon, value = text.partition(":")
            if not colon:
                raise ValueError("Write a header as NAME:VALUE.")
            return Clue(HEADER, value.strip(), name.strip())
        return Clue(TRACE, text.strip().lower()) if kind == TRACE else Clue(KEY, text)
    except ValueError as error:
        raise WebRefusal(400, str(error)) from None


def _all_topics(account: Account) -> list[str]:
    found = account.admin.list_topics(timeout=CALL_S_MAX)
    return sorted(name for name in found.topics if not name.startswith(_INTERNAL))


def _text(data: bytes | None) -> str | None:
    """The beginning as text; bytes that are no UTF-8 as U+FFFD."""
    return None if data is None else data[:TRAIL_TEXT_CHARACTERS_MAX].decode(errors="replace")
