"""Giving back what deleted logs have left in a journal that still has others: step by step, as its files allow.

    the active segment holds some    close it
    a segment is not in a checkpoint write one
    a segment is mostly garbage      write it again

Strategy: the owner that wants it asks for the next step now and then, until nothing is left to do. A journal does not
do that by itself: its segments go as a whole when all of their data are old.
"""

from typing import TYPE_CHECKING

from hutong.journal.clean.compaction import garbage

if TYPE_CHECKING:
    from hutong.journal.parts import JournalParts


def shed_garbage(parts: "JournalParts") -> bool:
    """Begin the next step, if none is under way. True once all is done, or cannot be."""
    segments, cleaner, logs = parts.segments, parts.cleaner, parts.logs
    # The owner shall not wait for ever: what is left costs space, and nothing else.
    if cleaner.has_failed:
        return True
    active = segments.active
    # Nothing that is still written to is ever written again.
    if active is not None and not segments.active_index.extents.keys() <= logs.keys():
        parts.writer.roll()
        return False
    # A start scans what is behind the checkpoint, and expects it as it was written.
    closed = [segment for segment in segments.all() if segment is not active]
    if closed and (closed[-1].next_position or 0) > parts.checkpointer.last_position:
        parts.checkpointer.begin_checkpoint()
        return False
    if not cleaner.is_running:
        if not garbage(logs.values(), closed):
            return True
        cleaner.look_for_garbage()
        cleaner.begin_cleaning({})
    return False
