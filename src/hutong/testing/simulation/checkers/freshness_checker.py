"""The promise of a leader's lease: a read is not older than a session, whichever node answers it.

Strategy: only time fences the reads of a leader that does not know of the next one. So a reader that asks where a log
ends, a while after an answer of any leader, must hear of what that one has acknowledged.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from hutong.testing.simulation.history import EndSeen, SimulationHistory, ValueAcknowledged
from hutong.testing.simulation.history_text import Place, place_text


def check_freshness(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    return [] if history.stale_us_max is None else list(_errors(history, history.stale_us_max))


def _errors(history: SimulationHistory, stale_us_max: int) -> Iterator[str]:
    times_us: dict[Place, list[int]] = defaultdict(list)
    offsets: dict[Place, list[int]] = defaultdict(list)
    for each in history.happenings:
        if isinstance(each, ValueAcknowledged):
            times_us[each.place].append(each.at_us)
            offsets[each.place].append(each.offset)
    newest = {place: list(accumulate(found, max)) for place, found in offsets.items()}
    for seen in history.happenings:
        if not isinstance(seen, EndSeen):
            continue
        count = bisect_right(times_us[seen.place], seen.asked_us - stale_us_max)
        if count and newest[seen.place][count - 1] >= seen.end:
            yield (
                f"{seen.client} heard that {place_text(seen.place)} ends at {seen.end}, although offset "
                f"{newest[seen.place][count - 1]} was acknowledged {stale_us_max / 1e6:.1f} s before it asked"
            )
