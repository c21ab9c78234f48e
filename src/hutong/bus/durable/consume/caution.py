"""Finding the message that ends its process, by notes that are committed with the offsets.

A handler that raises is known by its exception; one that ends the whole process (out of memory, a fault in native
code) leaves no exception, and its message would be given to process after process. Kafka keeps a short text with every
committed offset (`metadata` of OffsetCommit). Here it marks a partition whose owner is at work, so that
the next owner knows that the last one ended without a clean exit, and then narrows down the message in hand: offsets
are committed before every `group` of messages, groups become smaller with each crash, and a message that is alone in
its group is counted. Nothing of this costs anything while no process crashes.

Knows nothing of brokers; a text that is not ours is that of an orderly owner.
"""

import re
from dataclasses import dataclass
from typing import Final

FIRST_GROUP: Final = 32  # messages between two commits after a crash
FIRST_SPAN: Final = 20_000  # messages for which that goes on: more than are handled between two commits
_TEXT: Final = re.compile(r"hutong/1 open group=(\d{1,9}) crashes=(\d{1,9})")


@dataclass(frozen=True, slots=True)
class CautionNote:
    """The note of a partition's owner at work. `group` 0: it commits by time. `crashes`: of a message in hand alone."""

    group: int = 0
    crashes: int = 0

    def __str__(self) -> str:
        return f"hutong/1 open group={self.group} crashes={self.crashes}"


def read_note(text: str | None) -> CautionNote | None:
    """None where the last owner left in order, or was not one of ours."""
    found = _TEXT.fullmatch(text or "")
    return CautionNote(int(found[1]), int(found[2])) if found else None


class Caution:
    """One partition whose last owner crashed: what to commit before which message, until none is suspect any more.

    The end of it is committed too, before the first message that is not suspect: else a crash of that one would count
    against the last that was.
    """

    __slots__ = ("_group_left", "_span_left", "crashes", "group")

    def __init__(self, note: CautionNote) -> None:
        self.group = FIRST_GROUP if not note.group else 1
        self.crashes = note.crashes  # of the very next message
        self._span_left = FIRST_SPAN if not note.group else note.group
        self._group_left = 0

    @property
    def is_over(self) -> bool:
        return self._span_left <= 0

    @property
    def is_note_due(self) -> bool:
        """True when the next message may begin only after a commit."""
        return self._group_left <= 0 or self.is_over

    def note_before(self) -> CautionNote:
        """The note in that commit."""
        if self.is_over:
            return CautionNote()
        return CautionNote(self.group, self.crashes + 1 if self.group == 1 else 0)

    def note_between(self) -> CautionNote:
        """The note of an offset without a message in hand."""
        return CautionNote() if self.is_over else CautionNote(self.group)

    def noted(self) -> None:
        self._group_left = self.group

    def failed(self) -> CautionNote | None:
        """The message in hand failed in an orderly way: what takes back its note, if it has one of its own."""
        if self.group != 1:
            return None
        self._group_left = 0  # before its next attempt there will be a note again
        return CautionNote(1, self.crashes)

    def ended(self) -> None:
        """A message was handled or given up."""
        self.crashes = 0
        self._group_left -= 1
        self._span_left -= 1
