"""Names of topics on both sides.

RocketMQ's names have letters, digits, `_`, `-`, `%` and `|`; Kafka's have no `%` or `|`, and dots instead. Names of
retry topics and of dead letters, `%RETRY%GROUP` and `%DLQ%GROUP`, are `RETRY.GROUP` and `DLQ.GROUP` in the log.
"""

import re
from typing import Final

from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.wire.rocketmq.codes import DEAD_LETTER_PREFIX, RETRY_PREFIX, ResponseCode

NAME_CHARACTERS_MAX: Final = 127  # as RocketMQ's
_PREFIXES: Final = ((RETRY_PREFIX, "RETRY."), (DEAD_LETTER_PREFIX, "DLQ."))
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)


def log_name(topic: str) -> str:
    """The name in the log of RocketMQ's topic. Raises RocketRefused for a name that no topic here can have."""
    # With its prefix: the whole name is in each message, behind a length of eight bits with a sign.
    if len(topic) > NAME_CHARACTERS_MAX:
        raise _no_topic(topic)
    for theirs, ours in _PREFIXES:
        if topic.startswith(theirs):
            return ours + _plain(topic.removeprefix(theirs), topic)
    return _plain(topic, topic)


def rocketmq_name(name: str) -> str:
    """RocketMQ's name of a topic in the log."""
    for theirs, ours in _PREFIXES:
        if name.startswith(ours):
            return theirs + name.removeprefix(ours)
    return name


def retry_topic(group: str) -> str:
    """The name in the log of a group's retry topic. Raises RocketRefused."""
    return log_name(RETRY_PREFIX + group)


def dead_letter_topic(group: str) -> str:
    """The name in the log of the topic of a group's dead letters. Raises RocketRefused."""
    return log_name(DEAD_LETTER_PREFIX + group)


def _plain(part: str, topic: str) -> str:
    if not _PLAIN.fullmatch(part):
        raise _no_topic(topic)
    return part


def _no_topic(topic: str) -> RocketRefused:
    return RocketRefused(
        ResponseCode.TOPIC_NOT_EXIST,
        f"No topic here can be named {topic[:NAME_CHARACTERS_MAX]!r}: a name has letters, digits, '_', '-' and '.', "
        f"at most {NAME_CHARACTERS_MAX}.",
    )
