"""Redrives: begin one, dry or not; watch, pause, resume and cancel it.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation

from hutong.console.dead_letters.conventions.letter import legal_topic
from hutong.console.dead_letters.redriving.messages import (
    CHOSEN_MAX,
    NO_ORIGIN,
    RATE_MAX,
    CancelRedrive,
    PauseRedrive,
    RedriveWish,
    ResumeRedrive,
)
from hutong.console.dead_letters.redriving.running import RunningRedrive, RunningRedrives
from hutong.console.dead_letters.redriving.tally import NAMES_MAX
from hutong.console.dead_letters.shown import redrive_shown, wish_shown
from hutong.console.routes import ConsoleRoute
from hutong.console.streams import Rounds, event, streamed
from hutong.rest.errors import refusal_of
from hutong.rest.limits import CALL_S_MAX
from hutong.web.answers import StreamedAnswer, WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from hutong.console.dead_letters.redriving.messages import RedriveEvent
    from hutong.console.desk import ConsoleDesk
    from hutong.web.requests import WebRequest

DRY_RUN_LETTERS_MAX: Final = 200_000
PROGRESS_INTERVAL_MS: Final = 400


class RedriveTarget(msgspec.Struct, frozen=True):
    """`origin` empty: letters that do not say where they came from."""

    origin: str
    target: str


class ChosenLetter(msgspec.Struct, frozen=True):
    partition: int
    offset: int


class RedriveBody(msgspec.Struct, frozen=True):
    targets: list[RedriveTarget] = []
    chosen: list[ChosenLetter] | None = None
    reasons: list[str] | None = None
    rate_per_s: int | None = None


class RedrivePages:
    """The routes to redrives."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk
        self._redrives = RunningRedrives(desk)

    def routes(self) -> list[ConsoleRoute]:
        of_topic, one = "/api/dead-letters/{topic}/redrives", "/api/redrives/{number:int}"
        changes = "dead_letters.redrive"
        return [
            ConsoleRoute("GET", of_topic, self.list_redrives),
            ConsoleRoute("POST", f"{of_topic}/dry-run", self.begin_dry),
            ConsoleRoute("POST", of_topic, self.begin, changes=changes),
            ConsoleRoute("GET", one, self.show),
            ConsoleRoute("GET", f"{one}/progress", self.follow),
            ConsoleRoute("POST", f"{one}/pause", self.pause, changes=changes),
            ConsoleRoute("POST", f"{one}/resume", self.resume, changes=changes),
            ConsoleRoute("POST", f"{one}/cancel", self.cancel),
        ]

    async def close(self) -> None:
        """End redrives after the batch under way."""
        await self._redrives.close()

    async def list_redrives(self, request: WebRequest) -> WebAnswer:
        account = await self._desk.account(request)
        found = self._redrives.of_topic(account, request.text("topic"))
        return json({"redrives": [_shown(redrive) for redrive in found]})

    async def begin_dry(self, request: WebRequest) -> WebAnswer:
        """Count the letters by origin, reason and target; nothing is written."""
        account = await self._desk.account(request)
        wish = wish_of(request.text("topic"), request.json(RedriveBody), is_dry=True)
        return json(_shown(await self._redrives.begin(account, wish, _nothing)), 201)

    async def begin(self, request: WebRequest) -> WebAnswer:
        account, topic = await self._desk.account(request), request.text("topic")
        wish = wish_of(topic, request.json(RedriveBody), is_dry=False)
        if not wish.targets:
            raise WebRefusal(400, "Name the topics to which the letters go: a dry run lists their origins.", 40002)
        await self._desk.blocking(partial(_check_targets, account.admin, [*wish.targets.values()]))
        redrive = await self._redrives.begin(account, wish, partial(self._record_end, request))
        await self._desk.record(request, "dead_letters.redrive", topic, after=wish_shown(wish))
        return json(_shown(redrive), 201)

    async def show(self, request: WebRequest) -> WebAnswer:
        return json(_shown(await self._find(request)))

    async def follow(self, request: WebRequest) -> StreamedAnswer:
        """The redrive each time that it has changed."""
        redrive = await self._find(request)
        told: list[dict[str, Any]] = []

        async def news() -> list[bytes]:
            now = _shown(redrive)
            if told == [now]:
                return []
            told[:] = [now]
            return [event("redrive", now)]

        return streamed(Rounds(news, self._desk.pause, PROGRESS_INTERVAL_MS))

    async def pause(self, request: WebRequest) -> WebAnswer:
        return await self._steer(request, PauseRedrive(), "pause")

    async def resume(self, request: WebRequest) -> WebAnswer:
        return await self._steer(request, ResumeRedrive(self._desk.clock.monotonic_ms()), "resume")

    async def cancel(self, request: WebRequest) -> WebAnswer:
        return await self._steer(request, CancelRedrive(), "cancel")

    async def _steer(self, request: WebRequest, asked: RedriveEvent, name: str) -> WebAnswer:
        redrive = await self._find(request)
        redrive.driver.handle(asked)
        # A dry run changes nothing, so its end is none either.
        if not redrive.machine.wish.is_dry:
            await self._desk.record(request, f"dead_letters.{name}", redrive.machine.wish.topic)
        return json(_shown(redrive))

    async def _find(self, request: WebRequest) -> RunningRedrive:
        account = await self._desk.account(request)
        return self._redrives.find(account, request.number("number"))

    async def _record_end(self, request: WebRequest, redrive: RunningRedrive) -> None:
        shown = _shown(redrive)
        after = {name: shown[name] for name in ("state", "problem", "by_target", "by_cause", "done_before")}
        await self._desk.record(request, "dead_letters.redriven", redrive.machine.wish.topic, after=after)


def wish_of(topic: str, body: RedriveBody, *, is_dry: bool) -> RedriveWish:
    """The wish of a request, checked. Raises WebRefusal(400)."""
    if len(body.targets) > NAMES_MAX or len(body.reasons or ()) > NAMES_MAX:
        raise WebRefusal(400, f"At most {NAMES_MAX} origins and reasons are named.", 40002)
    targets = {}
    for each in body.targets:
        if (each.origin != NO_ORIGIN and legal_topic(each.origin) is None) or legal_topic(each.target) is None:
            raise WebRefusal(400, f"{each.target[:100]!r} for {each.origin[:100]!r}: no topic has such a name.", 40002)
        if each.target == topic:
            raise WebRefusal(400, "Letters cannot go back to their own topic of dead letters.", 40002)
        targets[each.origin] = each.target
    if body.rate_per_s is not None and not 1 <= body.rate_per_s <= RATE_MAX:
        raise WebRefusal(400, f"The rate is from 1 to {RATE_MAX} letters a second.", 40002)
    return RedriveWish(
        topic,
        targets,
        chosen=None if body.chosen is None else _chosen(body.chosen),
        reasons=None if body.reasons is None else frozenset(body.reasons),
        rate_per_s=body.rate_per_s,
        is_dry=is_dry,
        records_max=DRY_RUN_LETTERS_MAX if is_dry else None,
    )


def _chosen(letters: list[ChosenLetter]) -> dict[int, frozenset[int]]:
    if not letters or len(letters) > CHOSEN_MAX:
        raise WebRefusal(400, f"1 to {CHOSEN_MAX} letters are chosen; more of them by their reason, or all.", 40002)
    if any(each.partition < 0 or each.offset < 0 for each in letters):
        raise WebRefusal(400, "Partitions and offsets are numbers from 0.", 40002)
    chosen: dict[int, set[int]] = {}
    for each in letters:
        chosen.setdefault(each.partition, set()).add(each.offset)
    return {partition: frozenset(offsets) for partition, offsets in chosen.items()}


def _check_targets(admin: AdminClient, targets: list[str]) -> None:
    """Raises WebRefusal for a target that is not there, or that the user may not write to. Blocks."""
    asked = admin.describe_topics(
        TopicCollection([*dict.fromkeys(targets)]), request_timeout=CALL_S_MAX, include_authorized_operations=True
    )
    for topic, future in asked.items():
        error = future.exception(CALL_S_MAX)
        # A redrive makes no topics.
        if isinstance(error, KafkaException):
            refusal = refusal_of(error)
            raise WebRefusal(refusal.status, f"The topic {topic} is not there, or you may not see it.", refusal.code)
        allowed = future.result().authorized_operations
        # A broker that does not say it (before KIP-430) refuses later.
        if allowed and not {AclOperation.WRITE, AclOperation.ALL}.intersection(allowed):
            raise WebRefusal(403, f"You may not write to the topic {topic}.", 40301)


def _shown(redrive: RunningRedrive) -> dict[str, Any]:
    return redrive_shown(redrive.number, redrive.machine, redrive.begun_ms)


async def _nothing(redrive: RunningRedrive) -> None:
    """A dry run has no record in the audit."""
