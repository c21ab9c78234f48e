"""Dead letters: topics that have them, and the letters of one, the newest first.

Decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hutong.console.dead_letters.conventions.known import letter_of, looks_dead
from hutong.console.dead_letters.counts import LetterCounts, count_letters, count_reasons, progress_of
from hutong.console.dead_letters.redriving.progress import RedriveProgress
from hutong.console.dead_letters.shown import letter_shown
from hutong.console.limits import PAGE_RECORDS_MAX
from hutong.console.records.decoding.decode import PayloadDecoder
from hutong.console.records.paging.asked import NEWEST, AskedPage, asked_page
from hutong.console.records.paging.reading import ReadPage, read_page
from hutong.console.records.shown import AskedForms, shown_record
from hutong.console.routes import ConsoleRoute
from hutong.rest.limits import CALL_S_MAX
from hutong.rest.reading.live import encode_positions
from hutong.web.answers import WebAnswer, json

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from hutong.console.desk import ConsoleDesk
    from hutong.rest.accounts import Account
    from hutong.web.requests import WebRequest

LETTER_TOPICS_MAX: Final = 200
"""Topics of dead letters in one answer, with their counts."""


class DeadLetterPages:
    """The routes that read."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk
        self._decoder = PayloadDecoder()

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", "/api/dead-letters", self.list_topics),
            ConsoleRoute("GET", "/api/dead-letters/{topic}", self.list_letters),
            ConsoleRoute("GET", "/api/dead-letters/{topic}/reasons", self.list_reasons),
        ]

    async def list_topics(self, request: WebRequest) -> WebAnswer:
        """Topics whose names are those of dead letters. Any other may be opened as well."""
        account = await self._desk.account(request)
        return json(await self._desk.blocking(partial(_topics, account.admin)))

    async def list_letters(self, request: WebRequest) -> WebAnswer:
        account, topic, asked = await self._desk.account(request), request.text("topic"), asked_page(request)
        page, progress = await self._read(account, topic, asked)
        counts = await self._desk.blocking(partial(count_letters, account.admin, {topic: [*page.ends]}))
        return json({"topic": topic, **_counted(counts[topic]), **self._shown(page, progress)})

    async def list_reasons(self, request: WebRequest) -> WebAnswer:
        """The reasons of the newest letters."""
        account, topic = await self._desk.account(request), request.text("topic")
        page, _ = await self._read(account, topic, AskedPage(NEWEST, PAGE_RECORDS_MAX, None))
        letters = [letter_of(record) for record in page.records]
        conventions = sorted({letter.convention for letter in letters})
        newest_ms = max((record.timestamp_ms for record in page.records), default=None)
        answer = {"sampled": len(letters), "reasons": count_reasons(letters), "conventions": conventions}
        return json({**answer, "newest_ms": newest_ms})

    async def _read(
        self, account: Account, topic: str, asked: AskedPage
    ) -> tuple[ReadPage, dict[int, RedriveProgress]]:
        gateway = self._desk.gateway
        gateway.take_reader(account)
        try:
            page = await self._desk.blocking(
                partial(read_page, account, topic, asked, self._desk.clock, self._desk.masks)
            )
        finally:
            gateway.give_reader_back(account)
        found = (await self._desk.blocking(partial(progress_of, account.admin, [topic])))[topic]
        # Without it nothing is shown as redriven; the counts say that there is a problem.
        return page, {} if isinstance(found, str) else found

    def _shown(self, page: ReadPage, progress: dict[int, RedriveProgress]) -> dict[str, Any]:
        letters = [(record, letter_of(record)) for record in page.records]
        shown = []
        for record, letter in letters:
            own = progress.get(record.partition)
            is_done = own is not None and record.offset in own
            shown.append(
                {
                    **shown_record(record, self._decoder, AskedForms()),
                    "letter": letter_shown(record, letter, is_done=is_done),
                }
            )
        older = None if page.older is None else encode_positions(page.older).decode()
        return {"letters": shown, "reasons": count_reasons([letter for _, letter in letters]), "older": older}


def _topics(admin: AdminClient) -> dict[str, Any]:
    found = admin.list_topics(timeout=CALL_S_MAX).topics
    dead = sorted(name for name, topic in found.items() if topic.error is None and looks_dead(name))
    partitions = {name: [*found[name].partitions] for name in dead[:LETTER_TOPICS_MAX]}
    counts = count_letters(admin, partitions)
    topics = [{"name": name, "partitions": len(partitions[name]), **_counted(counts[name])} for name in partitions]
    # For the field that names a target, or a topic of dead letters with a name of its own.
    others = sorted(name for name in found if not name.startswith("__"))
    return {
        "topics": topics,
        "truncated": len(dead) > LETTER_TOPICS_MAX,
        "names": others[:LETTER_TOPICS_MAX],
    }


def _counted(counts: LetterCounts) -> dict[str, Any]:
    left = max(0, counts.letters - counts.done)
    return {"count": counts.letters, "done": counts.done, "left": left, "problem": counts.problem}
