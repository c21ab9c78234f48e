"""Filters of messages: by tags, or by properties.

An expression of tags is `*`, or `A || B`: a message with one of them is taken. A message has one tag. One in SQL92
chooses by properties (`selectors/`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.broker.rocketmq.selectors.parser import selector
from hutong.broker.rocketmq.selectors.tokens import SelectorError
from hutong.wire.rocketmq.codes import TAGS, ResponseCode
from hutong.wire.rocketmq.messages import decode_properties

EXPRESSION_CHARACTERS_MAX: Final = 64 * 1024
TAG: Final = "TAG"
SQL92: Final = "SQL92"


class HasProperties(Protocol):
    """A message in any form."""

    @property
    def properties(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Filter:
    """`takes` is True for the messages that the subscription wants."""

    takes: Callable[[HasProperties], bool]


ALL: Final = Filter(lambda _message: True)


@lru_cache(maxsize=1_000)
def filter_of(expression: str, kind: str) -> Filter:
    """The filter of an expression. Raises RocketRefused."""
    if kind == SQL92:
        return _filter_by_properties(expression)
    if kind not in (TAG, ""):
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"The node has no filters of the kind {kind:.20}.")
    if len(expression) > EXPRESSION_CHARACTERS_MAX:
        raise RocketRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"An expression of {len(expression)} characters.")
    tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
    # As `FilterAPI`: nothing is everything.
    if not tags or tags == {"*"}:
        return ALL
    return Filter(lambda message: decode_properties(message.properties).get(TAGS) in tags)


def _filter_by_properties(expression: str) -> Filter:
    try:
        takes = selector(expression)
    except SelectorError as error:
        raise RocketRefused(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}"
        ) from None
    return Filter(lambda message: takes(decode_properties(message.properties)))
