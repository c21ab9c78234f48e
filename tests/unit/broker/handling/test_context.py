"""A response completed later reaches its reader once, whichever of the two comes first."""

import pytest

from hutong.broker.handling.context import Later


def test_completed_before_anyone_listens() -> None:
    later: Later[str] = Later()
    later.complete("done")
    heard: list[str] = []
    later.then(heard.append)
    assert heard == ["done"]


def test_completed_while_somebody_listens() -> None:
    later: Later[str | None] = Later()
    heard: list[str | None] = []
    later.then(heard.append)
    assert (heard, later.is_complete) == ([], False)
    later.complete(None)
    assert (heard, later.is_complete) == ([None], True)


@pytest.mark.parametrize("is_heard", [True, False])
def test_completing_twice_is_our_own_fault(is_heard: bool) -> None:
    later: Later[str] = Later()
    if is_heard:
        later.then(lambda _response: None)
    later.complete("once")
    with pytest.raises(RuntimeError, match="completed twice"):
        later.complete("twice")
