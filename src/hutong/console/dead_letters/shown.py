"""Dead letters and redrives as JSON for the pages.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hutong.console.dead_letters.redriving.returned import WAY_HEADER

if TYPE_CHECKING:
    from hutong.bus.durable.records import StoredRecord
    from hutong.console.dead_letters.conventions.letter import DeadLetter
    from hutong.console.dead_letters.redriving.machine import RedriveMachine
    from hutong.console.dead_letters.redriving.messages import RedriveWish


def letter_shown(record: StoredRecord, letter: DeadLetter, *, is_done: bool) -> dict[str, Any]:
    """The facts of a letter, without its key and value."""
    way = next((value for name, value in reversed(record.headers) if name == WAY_HEADER), None)
    return {
        "convention": letter.convention,
        "origin": {"topic": letter.topic, "partition": letter.partition, "offset": letter.offset},
        "reason": letter.reason,
        "error_type": letter.error_type,
        "error_text": letter.error_text,
        "attempts": letter.attempts,
        "failed_ms": letter.time_ms,
        "group": letter.group,
        "is_done": is_done,
        # Of a record that came back and failed again.
        "way": None if way is None else way[:2_000].decode(errors="replace"),
    }


def wish_shown(wish: RedriveWish) -> dict[str, Any]:
    return {
        "targets": [{"origin": origin, "target": target} for origin, target in wish.targets.items()],
        "chosen": None if wish.chosen is None else sum(len(offsets) for offsets in wish.chosen.values()),
        "reasons": None if wish.reasons is None else sorted(wish.reasons),
        "rate_per_s": wish.rate_per_s,
        "is_dry": wish.is_dry,
    }


def redrive_shown(number: int, machine: RedriveMachine, begun_ms: int) -> dict[str, Any]:
    """A redrive as it is now."""
    tally = machine.tally
    return {
        "number": number,
        "topic": machine.wish.topic,
        "begun_ms": begun_ms,
        "state": str(machine.state),
        "is_over": machine.is_over,
        "problem": machine.problem,
        "is_truncated": machine.is_truncated,
        "read": tally.read,
        "done_before": tally.done_before,
        "remaining": machine.remaining,
        "sent": tally.sent_count,
        "left": tally.left_count,
        "by_target": _counts(tally.sent),
        "by_cause": _counts(tally.left),
        "by_origin": _counts(tally.origins),
        "by_reason": _counts(tally.reasons),
        "wish": wish_shown(machine.wish),
    }


def _counts(counts: dict[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "count": count} for name, count in sorted(counts.items(), key=lambda each: -each[1])]
