"""A stream of records for one browser: what the live tail and a search share.

Decides nothing about what is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.console.records.reading.part_reader import PartReader

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.budget import ReadBudget
    from hutong.console.records.showing import RecordShowing
    from hutong.rest.accounts import Account


class RecordStream:
    """The desk, the topic and its reader. `open_reader` comes first, on another thread."""

    _reader: PartReader

    def __init__(
        self, desk: ConsoleDesk, budget: ReadBudget, showing: RecordShowing, account: Account, topic: str
    ) -> None:
        self._desk = desk
        self._budget = budget
        self._showing = showing
        self._account = account
        self._topic = topic
        self._is_over = False

    def open_reader(self) -> PartReader:
        """Open the consumer. Blocks. Raises KafkaException."""
        self._reader = PartReader(self._account.properties, self._desk.masks)
        return self._reader
