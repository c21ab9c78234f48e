"""Interceptors: their phases, whom they are asked about, and what they refuse."""

import pytest
from tests.unit.rpc.scenes import Shop, Store

from hutong.foundation.errors import UsageError
from hutong.rpc import (
    DispatchFailed,
    IncomingCall,
    NotAuthenticated,
    NotAuthorized,
    Phase,
    Rpc,
    ServiceError,
    authentication,
    authorization,
    current_call,
    interceptor,
    with_options,
)

USERS = {"t-ann": "ann", "t-bob": "bob"}


class Knowing(Store):
    """Identifies the caller."""

    async def header(self, name: str) -> list[str]:
        return [str(current_call().user), *await super().header(name)]


async def look_up(token: str) -> str | None:
    return USERS.get(token)


def is_ann(call: IncomingCall) -> bool:
    return bool(call.user == "ann")


async def test_who_calls_and_whether_that_one_may(rpc: Rpc) -> None:
    guards = [authentication(look_up), authorization(is_ann, actions=["add"])]
    store = Knowing()
    await rpc.bind(Shop, store, interceptors=guards)
    shop = rpc.proxy(Shop)
    ann, bob, nobody = (with_options(shop, headers={"auth-token": token}) for token in ("t-ann", "t-bob", "t-eve"))
    assert await ann.add(1, 2) == 3
    assert await bob.header("x") == ["bob"]
    with pytest.raises(NotAuthorized, match="may not call 'add'") as refused:
        await bob.add(1, 2)
    assert refused.value.code == 403
    for caller in (shop, nobody):
        with pytest.raises(NotAuthenticated) as unknown:
            await caller.add(1, 2)
        assert unknown.value.code == 401


async def test_what_an_interceptor_refuses_is_not_executed(rpc: Rpc) -> None:
    def refuse(call: IncomingCall) -> None:
        raise ServiceError("closed on Sundays", code=77)

    store = Store()
    await rpc.bind(Shop, store, interceptors=[interceptor(refuse, actions=["wait"])])
    with pytest.raises(ServiceError, match="closed on Sundays") as caught:
        await rpc.proxy(Shop).wait("a")
    assert caught.value.code == 77
    assert not store.begun
    assert await rpc.proxy(Shop).add(1) == 2


async def test_an_interceptor_that_breaks_is_500(rpc: Rpc, failures: list[BaseException]) -> None:
    def break_down(call: IncomingCall) -> None:
        raise KeyError("secret")

    await rpc.bind(Shop, Store(), interceptors=[break_down])
    with pytest.raises(DispatchFailed) as caught:
        await rpc.proxy(Shop).add(1)
    assert "secret" not in caught.value.message
    assert [type(error) for error in failures] == [KeyError]


async def test_they_run_in_order_and_see_the_arguments_as_they_came(rpc: Rpc) -> None:
    seen: list[object] = []

    async def first(call: IncomingCall) -> None:
        seen.append((call.action, call.raw_arguments(), call.headers.get("who"), call.peer))

    await rpc.bind(Shop, Store(), interceptors=[first, lambda call: seen.append("second")])
    assert await rpc.proxy(Shop, headers={"who": "me"}).add(1) == 2
    assert seen == [("add", {"a": 1, "b": 1}, "me", "bus"), "second"]


async def test_phases_come_in_order(rpc: Rpc) -> None:
    late = interceptor(is_ann, phase=Phase.AUTHENTICATION)
    for early in (authorization(is_ann), interceptor(is_ann)):
        with pytest.raises(UsageError, match=r"of AUTHENTICATION comes after one of (AUTHORIZATION|USER)"):
            await rpc.bind(Shop, Store(), interceptors=[early, late])
    await rpc.bind(Shop, Store(), interceptors=[late, late, authorization(is_ann), is_ann])


async def test_what_makes_no_sense_is_refused(rpc: Rpc) -> None:
    with pytest.raises(UsageError, match="'ad', which the service has not"):
        await rpc.bind(Shop, Store(), interceptors=[interceptor(is_ann, actions=["ad"])])
    with pytest.raises(UsageError, match="a collection of names"):
        interceptor(is_ann, actions="add")
    with pytest.raises(UsageError, match="not callable"):
        await rpc.bind(Shop, Store(), interceptors=[3])  # type: ignore[list-item]
    assert rpc.services() == []
