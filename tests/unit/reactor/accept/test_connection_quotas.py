"""How many connections, from where, how fast: the decisions alone, and what always holds."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.reactor.accept.connection_quotas import (
    ConnectionLimits,
    ConnectionQuotas,
    ConnectionRefusal,
    ListenerLimits,
)

LISTENERS = ("PLAINTEXT", "SSL")
ADDRESSES = ("192.0.2.1", "192.0.2.2", "2001:db8::1")


def test_a_listener_is_full_by_its_own_bound_or_by_the_node_s() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(connections_max=3, listeners={"SSL": ListenerLimits(1)}))
    assert quotas.enter("SSL", "192.0.2.1", 0) is None
    assert quotas.is_full("SSL")
    assert not quotas.is_full("PLAINTEXT")
    for _ in range(2):
        quotas.enter("PLAINTEXT", "192.0.2.1", 0)
    assert quotas.is_full("PLAINTEXT")
    assert (quotas.open_on("PLAINTEXT"), quotas.open_on("SSL"), quotas.total) == (2, 1, 3)


def test_an_address_has_its_own_bound_and_others_theirs() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(per_ip_max=1, per_ip_overrides={"192.0.2.2": 2, "192.0.2.3": 0}))
    assert quotas.enter("", "192.0.2.1", 0) is None
    assert quotas.enter("", "192.0.2.1", 0) == (ConnectionRefusal.TOO_MANY_OF_ONE_ADDRESS, 0)
    assert [quotas.enter("", "192.0.2.2", 0) is None for _ in range(3)] == [True, True, False]
    assert quotas.enter("", "192.0.2.3", 0) == (ConnectionRefusal.TOO_MANY_OF_ONE_ADDRESS, 0)
    assert quotas.total == 3


def test_the_pace_of_the_node_and_of_a_listener() -> None:
    limits = ConnectionLimits(creation_rate_max=100, listeners={"SSL": ListenerLimits(creation_rate_max=1)})
    quotas = ConnectionQuotas(limits, window_ms=1_000)
    for _ in range(2):
        assert quotas.wait_ms("SSL", 0) == 0
        quotas.enter("SSL", "192.0.2.1", 0)
    assert quotas.wait_ms("SSL", 0) == 1_000
    assert quotas.wait_ms("SSL", 1_000) == 0
    assert quotas.wait_ms("PLAINTEXT", 1_000) == 0


def test_who_comes_too_fast_is_not_counted_and_does_not_wait_longer_for_trying() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(), rate_of=lambda _address: 1.0, window_ms=1_000)
    for _ in range(2):
        assert quotas.enter("", "192.0.2.1", 0) is None
    for _ in range(5):
        assert quotas.enter("", "192.0.2.1", 500) == (ConnectionRefusal.TOO_FAST_FROM_ONE_ADDRESS, 500)
    assert quotas.enter("", "192.0.2.1", 1_000) is None
    assert quotas.total == 3


def test_new_bounds_are_told_and_leave_what_is_open() -> None:
    quotas = ConnectionQuotas(ConnectionLimits())
    told: list[int] = []
    quotas.on_room.append(lambda: told.append(quotas.excess))
    for _ in range(3):
        quotas.enter("", "192.0.2.1", 0)
    quotas.set_limits(ConnectionLimits(connections_max=1))
    assert (quotas.total, quotas.excess) == (3, 2)
    quotas.leave("", "192.0.2.1")
    assert told == [2, 1]


@given(st.lists(st.tuples(st.sampled_from(LISTENERS), st.sampled_from(ADDRESSES), st.booleans()), max_size=60))
def test_bounds_hold_whatever_comes_and_goes(steps: list[tuple[str, str, bool]]) -> None:
    limits = ConnectionLimits(connections_max=7, per_ip_max=3, listeners={"SSL": ListenerLimits(2)})
    quotas = ConnectionQuotas(limits)
    inside: list[tuple[str, str]] = []
    for listener, address, is_coming in steps:
        if not is_coming and (listener, address) in inside:
            inside.remove((listener, address))
            quotas.leave(listener, address)
        elif not quotas.is_full(listener) and quotas.enter(listener, address, 0) is None:
            inside.append((listener, address))
        quotas.check_invariants()
        assert quotas.total == len(inside) <= 7
        assert quotas.open_on("SSL") <= 2
        assert all(sum(each == address for _, each in inside) <= 3 for address in ADDRESSES)
