"""Logins that have not come back: what binds them to a browser."""

import base64
import hashlib

import pytest

from hutong.console.limits import LOGIN_ATTEMPT_MS_MAX, LOGINS_REMEMBERED_MAX
from hutong.console.oidc.attempts import LoginAttempts, local_path
from hutong.console.oidc.outcomes import LoginFailure, LoginFault


def attempts() -> LoginAttempts:
    return LoginAttempts(b"k" * 32)


def test_an_answer_belongs_to_the_cookie_of_its_browser() -> None:
    table = attempts()
    begun = table.begin("token", "/topics?x=1", 5)
    assert table.take(begun.cookie, begun.state, 6) == begun
    assert begun.path == "/topics?x=1"
    assert len({begun.state, begun.nonce, begun.verifier}) == 3
    digest = hashlib.sha256(begun.verifier.encode()).digest()
    assert (len(begun.verifier), base64.urlsafe_b64decode(begun.challenge + "=")) == (43, digest)


def test_another_process_makes_others() -> None:
    begun = attempts().begin("token", "/", 5)
    with pytest.raises(LoginFailure) as failure:
        LoginAttempts(b"x" * 32).take(begun.cookie, begun.state, 6)
    assert failure.value.fault is LoginFault.EXPIRED


@pytest.mark.parametrize("change", ["x{}", "{}x", "{}.", ""])
def test_a_changed_cookie_is_none(change: str) -> None:
    table = attempts()
    begun = table.begin("token", "/topics", 5)
    with pytest.raises(LoginFailure):
        table.take(change.format(begun.cookie), begun.state, 6)


def test_an_answer_that_is_late() -> None:
    table = attempts()
    begun = table.begin("token", "/", 5)
    assert table.take(begun.cookie, begun.state, 4 + LOGIN_ATTEMPT_MS_MAX)
    later = table.begin("other", "/", 5)
    with pytest.raises(LoginFailure):
        table.take(later.cookie, later.state, 5 + LOGIN_ATTEMPT_MS_MAX)


def test_an_answer_counts_once_and_few_are_remembered() -> None:
    table = attempts()
    for number in range(LOGINS_REMEMBERED_MAX + 10):
        begun = table.begin(f"token{number}", "/", number)
        table.take(begun.cookie, begun.state, number)
        with pytest.raises(LoginFailure):
            table.take(begun.cookie, begun.state, number)
    assert len(table._used) == LOGINS_REMEMBERED_MAX
    begun = table.begin("last", "/", 2 * LOGIN_ATTEMPT_MS_MAX)
    table.take(begun.cookie, begun.state, 2 * LOGIN_ATTEMPT_MS_MAX)
    assert len(table._used) == 1, "those that expired are forgotten"


@pytest.mark.parametrize("path", ["//x", "/\\x", "\\x", "x", "", "http://x", "/api/x", "/a b", "/a\n", "/ä", "/\x7f"])
def test_paths_of_other_sites_lead_to_the_first_page(path: str) -> None:
    assert local_path(path) == "/"
