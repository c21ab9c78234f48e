"""Checks of implementations: once for each function of a class, and never for another object's own."""

import inspect
from typing import Any, Protocol

import pytest

from hutong.foundation.errors import UsageError
from hutong.rpc import service
from hutong.rpc.descriptions.description import describe
from hutong.rpc.serving.implementation import invocations


@service("counter")
class Counter(Protocol):
    async def add(self, count: int, *, twice: bool = False) -> int: ...


@service("counter.short")
class ShortCounter(Protocol):
    async def add(self, count: int) -> int: ...


class Counting:
    def __init__(self) -> None:
        self.count = 0

    async def add(self, count: int, *, twice: bool = False) -> int:
        self.count += count * (2 if twice else 1)
        return self.count


class Blocking:
    def add(self, count: int) -> int:
        return count


async def added(value: object, count: int, protocol: type = Counter) -> Any:
    description = describe(protocol)
    invocation = invocations(description, value, may_block=False)["add"]
    return await invocation.invoke(description.methods["add"].arguments_type(count))


async def test_each_object_has_calls_of_its_own() -> None:
    first, second = Counting(), Counting()
    assert [await added(one, count) for one, count in ((first, 1), (second, 10), (first, 2))] == [1, 10, 3]
    assert await added(second, 5, ShortCounter) == 15


async def test_the_second_object_of_a_class_is_not_inspected(monkeypatch: pytest.MonkeyPatch) -> None:
    await added(Counting(), 1)
    monkeypatch.setattr(inspect, "signature", lambda _: pytest.fail("it was inspected again"))
    assert await added(Counting(), 2) == 2


async def test_a_function_of_one_object_is_checked_by_itself() -> None:
    await added(Counting(), 1)
    wrong: Any = Counting()
    wrong.add = lambda: None
    with pytest.raises(UsageError, match="cannot be called by the names"):
        await added(wrong, 1)


async def test_a_wrong_class_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(UsageError, match="cannot be called by the names"):
            await added(Blocking(), 1)


async def test_a_class_may_block_in_a_worker_alone() -> None:
    description = describe(ShortCounter)
    invocations(description, Blocking(), may_block=True)
    with pytest.raises(UsageError, match="is not async"):
        invocations(description, Blocking(), may_block=False)
