"""The promise of look-ups by time: the first record that is not older, or the one with the greatest time (KIP-734)."""

from collections.abc import Iterator

from hutong.testing.simulation.clients.times import MAX_TIMESTAMP
from hutong.testing.simulation.history import FinalTimes, SimulationHistory


def check_times(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    return [error for each in history.happenings if isinstance(each, FinalTimes) for error in _errors(each)]


def _errors(final: FinalTimes) -> Iterator[str]:
    place = f"{final.place[0]}-{final.place[1]}"
    newest_ms = max((time_ms for _, time_ms in final.records), default=-1)
    for asked_ms, offset, found_ms in final.answers:
        least_ms = newest_ms if asked_ms == MAX_TIMESTAMP else asked_ms
        right = next(((at, time_ms) for at, time_ms in final.records if time_ms >= least_ms), (-1, -1))
        if (offset, found_ms) != right:
            what = "the newest time" if asked_ms == MAX_TIMESTAMP else f"the time {asked_ms}"
            yield f"{place} has {what} at {offset} ({found_ms}) instead of {right[0]} ({right[1]})"
