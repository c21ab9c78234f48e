"""All routes of records, and what they share: the rate at which the console reads.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.console.records.record_changes import RecordChanges
from hutong.console.records.record_pages import RecordPages
from hutong.console.records.record_streams import RecordStreams
from hutong.console.records.showing import RecordShowing

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.budget import ReadBudget
    from hutong.console.routes import ConsoleRoute


class RecordsRoom:
    """The room of records."""

    def __init__(self, desk: ConsoleDesk, budget: ReadBudget) -> None:
        """`budget` is the rate of all that the console reads."""
        showing = RecordShowing(desk)
        self._parts = (
            RecordPages(desk, budget, showing),
            RecordStreams(desk, budget, showing),
            RecordChanges(desk, budget),
        )

    def routes(self) -> list[ConsoleRoute]:
        return [route for part in self._parts for route in part.routes()]
