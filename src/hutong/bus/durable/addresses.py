"""Durable addresses and the names allowed in them.

`topic:NAME` is the topic NAME of the log. Names keep the rules of Kafka, so that every broker takes them.
"""

import re
from typing import Final

from hutong.foundation.errors import UsageError

PREFIX: Final = "topic:"
TOPIC_CHARS_MAX: Final = 249  # Kafka's own bound: a folder's name must hold the topic and a partition's number
GROUP_CHARS_MAX: Final = 249
DEAD_SUFFIX: Final = ".dead"
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_durable(address: str) -> bool:
    return address.startswith(PREFIX)


def topic_of(address: str) -> str:
    """The topic of a durable address. Raises UsageError where that cannot be a topic's name."""
    return checked_topic(address.removeprefix(PREFIX), f"The address {shown(address)}")


def checked_topic(name: str, what: str) -> str:
    if not name:
        raise UsageError(f"{what} names no topic; write {PREFIX}NAME.")
    if len(name) > TOPIC_CHARS_MAX:
        raise UsageError(f"{what} is too long: a topic's name has at most {TOPIC_CHARS_MAX} characters.")
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise UsageError(f"{what} is no name of a topic: letters, digits, '.', '_' and '-' may stand in one.")
    return name


def checked_group(group: str | None, address: str) -> str:
    """Raises UsageError for a consumer without a group, or one that no broker would take."""
    if not group:
        raise UsageError(
            f"A consumer of {shown(address)} needs a group, as in consumer({address!r}, group='billing'): "
            "each group has every message once, its members share them."
        )
    if len(group) > GROUP_CHARS_MAX or not group.isprintable():
        raise UsageError(f"The group {shown(group)} is too long ({GROUP_CHARS_MAX} characters) or not printable.")
    return group


def checked_member(member: str | None) -> str | None:
    """A name under which one process comes back to its share at once. Kafka's rules for `group.instance.id`."""
    if member is not None and (len(member) > TOPIC_CHARS_MAX or not _TOPIC.fullmatch(member) or member in (".", "..")):
        raise UsageError(f"The member {shown(member)} is no name: letters, digits, '.', '_' and '-', at most 249.")
    return member


def dead_letter_topic(topic: str, group: str, wish: str | None) -> str | None:
    """The dead-letter topic of `group`: `wish`, or TOPIC.GROUP.dead for "", or None."""
    if wish is None:
        return None
    if wish:
        name = wish.removeprefix(PREFIX)
        if name == topic:
            raise UsageError(f"The dead-letter topic of {topic} cannot be {topic} itself: nothing would ever leave it.")
        return checked_topic(name, f"The dead-letter topic {shown(wish)}")
    try:
        return checked_topic(f"{topic}.{group}{DEAD_SUFFIX}", "It")
    except UsageError as error:
        raise UsageError(
            f"{shown(f'{topic}.{group}{DEAD_SUFFIX}')} cannot be the name of a topic; name one with dead_letter=NAME."
        ) from error


def shown(name: str) -> str:
    """A name as it may stand in a message: bounded, without control characters."""
    return repr(name if len(name) <= 80 else name[:77] + "...")
