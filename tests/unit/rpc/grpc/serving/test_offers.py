"""The services that a server offers, as they are bound and unbound."""

from typing import Any, Protocol

import pytest

pytest.importorskip("grpc")

from hutong.foundation.errors import LimitExceeded
from hutong.rpc import service
from hutong.rpc.descriptions.description import ServiceDescription, describe
from hutong.rpc.grpc.serving import offers as offers_module
from hutong.rpc.grpc.serving.offers import Offers


@service("one")
class One(Protocol):
    async def call(self) -> None: ...


@service("two")
class Two(Protocol):
    async def call(self) -> None: ...
    async def other(self) -> int: ...


@service("unsayable")
class Unsayable(Protocol):
    async def call(self) -> Any: ...


def test_what_is_asked_for_is_mapped_and_nothing_else() -> None:
    bound = [("one", describe(One)), ("two", describe(Two)), ("::", describe(One))]
    offers = Offers(lambda: bound)
    assert offers.find("/two.Two/Other") is not None
    assert offers.find("/two.Two/Missing") is None
    assert list(offers._services) == ["two.Two"]
    assert sorted(offers.names) == ["one.One", "two.Two"]
    assert len(list(offers.pools)) == 2


def test_one_that_cannot_be_mapped_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    offers = Offers(lambda: [("unsayable", describe(Unsayable))])
    for _ in range(3):
        assert offers.find("/unsayable.Unsayable/Call") is None
        assert offers.names == []
    assert len(caplog.records) == 1


def test_those_that_are_gone_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers_module, "OFFERS_MAX", 2)
    bound: list[tuple[str, ServiceDescription]] = [("a", describe(One)), ("b", describe(One))]
    offers = Offers(lambda: bound)
    assert offers.names == ["a.One", "b.One"]
    with pytest.raises(LimitExceeded, match="grpc_offers_max"):
        offers.add(describe(Two))
    bound.pop(0)
    assert offers.find("/a.One/Call") is not None, "still known, so that its callers learn that nobody is there"
    bound.append(("c", describe(Two)))
    assert offers.find("/c.Two/Call") is not None
    assert offers.find("/a.One/Call") is None
    assert sorted(offers.names) == ["b.One", "c.Two"]
