"""Targets for expressions by which RocketMQ's consumers choose messages."""

from collections.abc import Iterator
from random import Random

from tests.fuzz.target import Target
from tests.support.selector_texts import NAMES, properties, selector_text

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


TARGETS = [Target("rocketmq-selector", choose, selectors, (SelectorError,))]
