"""The promises to an administrator of groups: a change that was answered is there, what was deleted stays gone.

Strategy: a group is changed by one client, step by step. So its offset and its setting are known between two steps, or
one of two after a change without a clear answer.
"""

from collections import defaultdict
from collections.abc import Iterator

from hutong.testing.simulation.admin_history import KeptChanged, KeptSeen
from hutong.testing.simulation.clients.keeper import DEFAULT_LIMIT, NO_OFFSET, SETS, UNCLEAR
from hutong.testing.simulation.history import SimulationHistory
from hutong.wire.kafka.error_codes import ErrorCode


def check_kept_groups(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    checks: dict[str, _KeptGroupCheck] = defaultdict(_KeptGroupCheck)
    errors: list[str] = []
    for each in history.happenings:
        match each:
            case KeptChanged():
                errors += checks[each.group].changed(each)
            case KeptSeen():
                errors += checks[each.group].seen(each)
    return errors


class _KeptGroupCheck:
    """One group's possible offsets and settings."""

    def __init__(self) -> None:
        self._offsets = {NO_OFFSET}
        self._settings = {DEFAULT_LIMIT}

    def changed(self, change: KeptChanged) -> Iterator[str]:
        values = self._settings if change.kind == SETS else self._offsets
        if change.error == ErrorCode.GROUP_ID_NOT_FOUND:
            if NO_OFFSET not in values:
                yield f"{change.client} hears that there is no {change.group}, which has the offset {_either(values)}"
            return
        # Without an answer the node may have done it, or do it later.
        if change.error != UNCLEAR:
            values.clear()
        values.add(change.value)

    def seen(self, seen: KeptSeen) -> Iterator[str]:
        looks = ("offset", seen.offset, self._offsets), ("setting", seen.setting, self._settings)
        for what, found, possible in looks:
            if found not in possible:
                yield f"{seen.client} finds {seen.group} with the {what} {found} instead of {_either(possible)}"


def _either(values: set[int]) -> str:
    return " or ".join(map(str, sorted(values)))
