"""The right to use an address: denied unless it is permitted."""

import pytest

from hutong.bus.bridge.permissions import ADDRESS_CHARACTERS_MAX, PERMITS_MAX, Permissions, Permit
from hutong.foundation.errors import LimitExceeded, UsageError


def test_nothing_is_allowed_where_nothing_is_said() -> None:
    nobody = Permissions()
    assert not nobody.allows_in("a")
    assert not nobody.allows_out("a")


def test_directions_are_apart() -> None:
    permissions = Permissions([Permit("in")], [Permit("out")])
    assert permissions.allows_in("in")
    assert not permissions.allows_in("out")
    assert permissions.allows_out("out")
    assert not permissions.allows_out("in")


def test_an_address_is_no_expression_and_an_expression_matches_the_whole() -> None:
    permissions = Permissions([Permit("a.b"), Permit(regex=r"news\.\w+")])
    assert permissions.allows_in("a.b")
    assert not permissions.allows_in("axb")
    assert permissions.allows_in("news.today")
    assert not permissions.allows_in("news.today.late")
    assert not permissions.allows_in("old.news.today")
    assert not permissions.allows_in("news.today\n")


def test_long_addresses_are_never_allowed() -> None:
    permissions = Permissions([Permit(regex=".*")])
    assert permissions.allows_in("a" * ADDRESS_CHARACTERS_MAX)
    assert not permissions.allows_in("a" * (ADDRESS_CHARACTERS_MAX + 1))


def test_decisions_stay_right_when_more_were_asked_for_than_are_remembered() -> None:
    permissions = Permissions([Permit(regex=r"\d*7")])
    for round_ in range(2):
        for number in range(12_000):
            assert permissions.allows_in(str(number)) is (number % 10 == 7), round_


def test_bounds() -> None:
    with pytest.raises(LimitExceeded):
        Permissions([Permit(str(number)) for number in range(PERMITS_MAX + 1)])
    with pytest.raises(UsageError):
        Permissions(outbound=[Permit(regex="(a+)+")])
    with pytest.raises(ValueError):
        Permit()
    with pytest.raises(ValueError):
        Permit("a", "b")
