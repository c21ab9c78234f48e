"""A public method that takes a handler cannot be replaced by assigning to it: that would do nothing, silently."""

import importlib
import inspect
from typing import Any

import pytest

import hutong.bus
import hutong.rpc
import hutong.runtime
from hutong.bus.durable.consume.driver import DurableConsumer


def public_classes() -> list[type[Any]]:
    found: set[type[Any]] = {DurableConsumer}
    for package in (hutong.bus, hutong.rpc, hutong.runtime):
        for name in importlib.import_module(package.__name__).__all__:
            kind = getattr(package, name)
            if inspect.isclass(kind):
                found.add(kind)
    return sorted(found, key=lambda kind: kind.__qualname__)


WITH_HANDLERS = [
    (kind, name)
    for kind in public_classes()
    for name, member in vars(kind).items()
    if name.endswith("handler") and not name.startswith("_") and inspect.isfunction(member)
]


def test_there_are_such_methods() -> None:
    found = [(kind.__qualname__, name) for kind, name in WITH_HANDLERS]
    assert found == [("Consumer", "handler"), ("DurableConsumer", "handler"), ("MessageProducer", "drain_handler")]


@pytest.mark.parametrize(("kind", "name"), WITH_HANDLERS, ids=lambda part: getattr(part, "__qualname__", part))
def test_an_assignment_to_a_handler_method_fails(kind: type[Any], name: str) -> None:
    with pytest.raises(AttributeError, match="read-only"):
        setattr(object.__new__(kind), name, print)
