"""A pending value reaches its reader once, whichever of the two comes first."""

import pytest

from hutong.foundation.waiting.pending import Pending


def test_completed_before_anyone_listens() -> None:
    pending: Pending[str] = Pending()
    pending.complete("done")
    heard: list[str] = []
    pending.then(heard.append)
    assert heard == ["done"]


def test_completed_while_somebody_listens() -> None:
    pending: Pending[str | None] = Pending()
    heard: list[str | None] = []
    pending.then(heard.append)
    assert (heard, pending.is_complete) == ([], False)
    pending.complete(None)
    assert (heard, pending.is_complete) == ([None], True)


@pytest.mark.parametrize("is_heard", [True, False])
def test_completing_twice_is_our_own_fault(is_heard: bool) -> None:
    pending: Pending[str] = Pending()
    if is_heard:
        pending.then(lambda _response: None)
    pending.complete("once")
    with pytest.raises(RuntimeError, match="completed twice"):
        pending.complete("twice")
