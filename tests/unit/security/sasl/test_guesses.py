"""Guesses of passwords are slowed down: whose, for how long, and what is kept of them. Time is given."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.security.sasl.guesses import (
    ADDRESSES_MAX,
    DELAY_MS_MIN,
    EVICTION_SAMPLE,
    FORGET_MS,
    FREE_FAILURES,
    PARALLEL_MAX,
    RETRY_MS,
    USER_DELAY_MS_MAX,
    USER_FREE_FAILURES,
    USERS_MAX,
    USERS_PER_ADDRESS_MAX,
    Guesses,
)

DELAY_MS_MAX = 2_000
ATTACKER, HOME = "192.0.2.1", "198.51.100.7"


def waited(guesses: Guesses, user: str, address: str, now_ms: int, *, is_right: bool = False) -> int:
    """Check a password once its turn has come; returns how long that took."""
    at_ms = now_ms
    while wait_ms := guesses.wait_ms(user, address, now_ms, at_ms):
        at_ms += wait_ms
    guesses.ended(user, address, at_ms, is_right=is_right)
    return at_ms - now_ms


def fail(guesses: Guesses, times: int, user: str = "ann", address: str = ATTACKER, now_ms: int = 0) -> int:
    """Fail so often, one after the other; returns the time then."""
    for _ in range(times):
        now_ms += waited(guesses, user, address, now_ms)
    return now_ms


def test_the_wait_doubles_after_the_free_failures_up_to_its_bound() -> None:
    guesses, now_ms, waits = Guesses(DELAY_MS_MAX), 0, []
    for _ in range(FREE_FAILURES + 5):
        waits.append(waited(guesses, "ann", ATTACKER, now_ms))
        now_ms += waits[-1]
    assert waits[:FREE_FAILURES] == [0] * FREE_FAILURES
    assert waits[FREE_FAILURES:] == [DELAY_MS_MIN, 500, 1_000, 2_000, 2_000]


def test_a_right_password_ends_it() -> None:
    guesses = Guesses(DELAY_MS_MAX)
    now_ms = fail(guesses, FREE_FAILURES + 3)
    assert waited(guesses, "ann", ATTACKER, now_ms, is_right=True) > 0
    assert waited(guesses, "ann", ATTACKER, now_ms + DELAY_MS_MAX) == 0


def test_an_attacker_locks_out_nobody_who_comes_from_elsewhere() -> None:
    guesses = Guesses(DELAY_MS_MAX)
    now_ms = fail(guesses, 1_000)
    for number in range(50):  # connections at once: their short wait does not queue
        assert guesses.wait_ms("ann", HOME, now_ms, now_ms + USER_DELAY_MS_MAX) in (0, RETRY_MS), number
    guesses.ended("ann", HOME, now_ms, is_right=True)
    assert waited(guesses, "bob", HOME, now_ms) == 0
    assert 0 < waited(guesses, "ann", HOME, now_ms, is_right=True) <= USER_DELAY_MS_MAX


def test_a_few_failures_from_many_addresses_wait_a_little_for_each_user() -> None:
    guesses = Guesses(DELAY_MS_MAX)
    for number in range(USER_FREE_FAILURES):
        assert waited(guesses, "ann", f"10.0.0.{number}", 0) == 0
    assert 0 < waited(guesses, "ann", HOME, 0) <= USER_DELAY_MS_MAX
    assert waited(guesses, "bob", HOME, 0) == 0


def test_only_one_of_many_at_once_passes_in_each_wait() -> None:
    guesses = Guesses(DELAY_MS_MAX)
    now_ms = fail(guesses, FREE_FAILURES) + DELAY_MS_MIN
    assert [guesses.wait_ms("ann", ATTACKER, now_ms, now_ms) for _ in range(3)] == [0, DELAY_MS_MIN, DELAY_MS_MIN]


def test_more_than_a_few_do_not_pass_before_the_first_has_failed() -> None:
    guesses = Guesses(DELAY_MS_MAX)
    waits = [guesses.wait_ms("ann", ATTACKER, 0, 0) for _ in range(PARALLEL_MAX + 2)]
    assert waits == [0] * PARALLEL_MAX + [RETRY_MS] * 2
    guesses.ended("ann", ATTACKER, 0, is_right=True)
    assert guesses.wait_ms("ann", ATTACKER, 0, 0) == 0


def test_failures_are_forgotten() -> None:
    guesses = Guesses(DELAY_MS_MAX)
    now_ms = fail(guesses, 50)
    assert waited(guesses, "ann", ATTACKER, now_ms + FORGET_MS, is_right=True) == 0
    assert waited(guesses, "ann", HOME, now_ms + FORGET_MS, is_right=True) == 0


def test_nothing_waits_where_the_bound_is_0() -> None:
    guesses = Guesses(0)
    assert fail(guesses, 100) == 0
    assert len(guesses) == 0


def test_many_users_of_one_address_are_slowed_together() -> None:
    """Trying one password with many names; an own right password in between does not help."""
    guesses, now_ms = Guesses(DELAY_MS_MAX), 0
    for number in range(USERS_PER_ADDRESS_MAX + FREE_FAILURES):
        assert waited(guesses, f"user-{number}", ATTACKER, now_ms) == 0
    for number in range(100, 110):
        waited(guesses, f"mine-{number}", ATTACKER, now_ms, is_right=True)
        now_ms += waited(guesses, f"user-{number}", ATTACKER, now_ms)
    assert now_ms >= 10 * DELAY_MS_MIN
    assert waited(guesses, "user-200", HOME, now_ms) == 0


def test_the_addresses_of_one_ipv6_network_count_as_one() -> None:
    guesses, now_ms = Guesses(DELAY_MS_MAX), 0
    for number in range(FREE_FAILURES):
        now_ms += waited(guesses, "ann", f"2001:db8::{number:x}", now_ms)
    assert guesses.wait_ms("ann", "2001:db8::ffff", now_ms, now_ms) == DELAY_MS_MIN
    assert guesses.wait_ms("ann", "2001:db8:0:1::1", now_ms, now_ms) == 0
    fail(guesses, FREE_FAILURES, address="192.0.2.9")
    assert guesses.wait_ms("ann", "::ffff:192.0.2.9", now_ms, now_ms) > 0


def test_cheap_newcomers_do_not_push_out_a_stubborn_one() -> None:
    guesses = Guesses(DELAY_MS_MAX)
    now_ms = fail(guesses, 20)
    for number in range(2 * ADDRESSES_MAX):
        waited(guesses, f"u{number % USERS_MAX}", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", now_ms)
    guesses.check_invariants()
    assert EVICTION_SAMPLE > 1
    assert guesses.wait_ms("ann", ATTACKER, now_ms, now_ms) > 0


def test_a_check_that_found_out_nothing_counts_as_none() -> None:
    guesses = Guesses(DELAY_MS_MAX)
    for _ in range(3 * FREE_FAILURES):
        assert guesses.wait_ms("ann", ATTACKER, 0, 0) == 0
        guesses.ended("ann", ATTACKER, 0, is_right=None)
    assert len(guesses) == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["1.1.1.1", "::1", "no address"]),
            st.sampled_from([True, False, None]),
            st.integers(0, 2 * FORGET_MS),
        ),
        max_size=100,
    )
)
def test_every_wait_is_bounded_and_nothing_is_left_in_the_end(
    attempts: list[tuple[str, str, bool | None, int]],
) -> None:
    guesses, now_ms = Guesses(DELAY_MS_MAX), 0
    for user, address, is_right, pause_ms in attempts:
        now_ms += pause_ms
        wait_ms = guesses.wait_ms(user, address, now_ms, now_ms)
        assert 0 <= wait_ms <= DELAY_MS_MAX
        if not wait_ms:
            guesses.ended(user, address, now_ms, is_right=is_right)
        guesses.check_invariants()
