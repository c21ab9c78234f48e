"""The checker of groups without members: a sound history, and each promise broken once."""

from hutong.testing.simulation.admin_history import KeptChanged, KeptSeen
from hutong.testing.simulation.checkers.keeper_checker import check_kept_groups
from hutong.testing.simulation.clients.keeper import COMMITS, DELETES_GROUP, FORGETS, SETS, UNCLEAR
from hutong.testing.simulation.history import Happening, SimulationHistory
from hutong.testing.simulation.world import World
from hutong.wire.kafka.error_codes import ErrorCode

GROUP = "keeper-0.1"


def changed(kind: str, value: int, error: int = 0) -> KeptChanged:
    return KeptChanged(1, "keeper-0", GROUP, kind, value, error)


def seen(offset: int, setting: int = 5) -> KeptSeen:
    return KeptSeen(2, "keeper-0", GROUP, offset, setting)


def errors_of(*happenings: Happening) -> list[str]:
    history = SimulationHistory(World(1))
    for each in happenings:
        history.add(each)
    return check_kept_groups(history)


def test_a_sound_history_has_no_errors() -> None:
    missing = changed(DELETES_GROUP, -1, ErrorCode.GROUP_ID_NOT_FOUND)
    assert not errors_of(missing, changed(COMMITS, 1), seen(1), changed(SETS, 7), seen(1, 7))
    assert not errors_of(changed(COMMITS, 1), changed(FORGETS, -1), seen(-1), missing)


def test_what_was_committed_is_there() -> None:
    assert errors_of(changed(COMMITS, 1), seen(-1)) == [f"keeper-0 finds {GROUP} with the offset -1 instead of 1"]


def test_what_was_deleted_stays_gone() -> None:
    history = changed(COMMITS, 1), changed(DELETES_GROUP, -1), seen(-1), seen(1)
    assert errors_of(*history) == [f"keeper-0 finds {GROUP} with the offset 1 instead of -1"]


def test_a_group_with_an_offset_is_found() -> None:
    history = changed(COMMITS, 1), changed(FORGETS, -1, ErrorCode.GROUP_ID_NOT_FOUND)
    assert errors_of(*history) == [f"keeper-0 hears that there is no {GROUP}, which has the offset 1"]


def test_a_setting_is_kept() -> None:
    assert errors_of(changed(SETS, 7), seen(-1, 5)) == [f"keeper-0 finds {GROUP} with the setting 5 instead of 7"]


def test_a_change_without_an_answer_has_happened_or_not() -> None:
    history = changed(COMMITS, 1), changed(COMMITS, 2, UNCLEAR)
    assert not errors_of(*history, seen(1), seen(2))
    assert errors_of(*history, seen(3)) == [f"keeper-0 finds {GROUP} with the offset 3 instead of 1 or 2"]
