"""Refusals of late: counted, bounded, latest first."""

from hutong.broker.rights.recent_refusals import (
    NAME_CHARACTERS_KEPT_MAX,
    REFUSALS_KEPT_MAX,
    RecentRefusals,
    RefusalCount,
    RefusedRight,
)
from hutong.security.acls import Operation, ResourceType


def refused(name: str, principal: str = "User:bob") -> RefusedRight:
    return RefusedRight(principal, "10.0.0.1", Operation.READ, ResourceType.TOPIC, name)


def test_the_same_refusal_is_counted() -> None:
    refusals = RecentRefusals()
    for now_ms in (5, 7, 9):
        refusals.add(refused("a"), now_ms)
    assert list(refusals.newest_first()) == [(refused("a"), RefusalCount(3, 5, 9))]


def test_the_latest_comes_first() -> None:
    refusals = RecentRefusals()
    for now_ms, name in enumerate("aba"):
        refusals.add(refused(name), now_ms)
    assert [right.name for right, _ in refusals.newest_first()] == ["a", "b"]


def test_the_one_that_was_quiet_longest_goes() -> None:
    refusals = RecentRefusals()
    for number in range(REFUSALS_KEPT_MAX):
        refusals.add(refused(str(number)), number)
    refusals.add(refused("0"), 500)
    refusals.add(refused("new"), 501)
    names = [right.name for right, _ in refusals.newest_first()]
    assert (len(names), names[:2], "1" in names) == (REFUSALS_KEPT_MAX, ["new", "0"], False)


def test_long_names_are_cut() -> None:
    refusals = RecentRefusals()
    refusals.add(refused("n" * 100_000, "p" * 100_000), 1)
    ((right, _),) = refusals.newest_first()
    assert (len(right.name), len(right.principal)) == (NAME_CHARACTERS_KEPT_MAX, NAME_CHARACTERS_KEPT_MAX)
