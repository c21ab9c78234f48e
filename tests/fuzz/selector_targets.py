"""Targets for what RocketMQ's consumers write: expressions that choose messages, and receipts of popped ones."""

from collections.abc import Iterator
from random import Random

from tests.fuzz.target import Target
from tests.support.selector_texts import NAMES, properties, selector_text

from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.broker.rocketmq.requests.pop.receipts import number_of
from hutong.broker.rocketmq.selectors.parser import selector
from hutong.broker.rocketmq.selectors.tokens import SelectorError


def choose(data: bytes) -> object:
    """Pieces between zeros are the expression and the values of properties."""
    expression, *values = data.decode(errors="replace").split("\0")
    return selector(expression)(dict(zip(NAMES, values, strict=False)))


def selectors() -> Iterator[bytes]:
    random = Random(92)
    for _ in range(50):
        yield "\0".join([selector_text(random), *properties(random).values()]).encode()


def read_receipt(data: bytes) -> object:
    number = number_of(data.decode(errors="replace"))
    assert -(2**31) <= number < 2**31
    return number


TARGETS = [
    Target("rocketmq-selector", choose, selectors, (SelectorError,)),
    Target("rocketmq-receipt", read_receipt, lambda: [b"0 1795824183071 60000 12 0 hutong 3 7"], (RocketRefused,)),
]
