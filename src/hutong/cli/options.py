"""Options that several commands share, so that they read the same everywhere; and checks of the names in them.

Names are checked before anything is sent: confluent-kafka raises a ValueError for the empty one.
"""

import re
from typing import Annotated, Final

import typer

from hutong.foundation.errors import UsageError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
TOPIC_CHARS_MAX: Final = 249  # Kafka's bound: a folder's name must hold the topic and a partition's number
GROUP_BYTES_MAX: Final = 4_096  # a node's bound; Kafka has none, so a group that is longer than a topic may exist
SHOWN_CHARS_MAX: Final = 60  # of a wrong name, in the sentence about it
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name(text: str) -> str:
    """The name of a topic, by Kafka's rule. Raises UsageError."""
    if len(text) > TOPIC_CHARS_MAX:
        raise UsageError(f"The topic {_shown(text)} is too long: a name has at most {TOPIC_CHARS_MAX} characters.")
    if not _TOPIC.fullmatch(text) or text in {".", ".."}:
        raise UsageError(
            f"{_shown(text)} is no name of a topic: write letters, digits, '.', '_' and '-', and not '.' or '..' alone."
        )
    return text


def group_name(text: str) -> str:
    """The name of a group: Kafka takes any text but the empty one. Raises UsageError."""
    if not text:
        raise UsageError("The name of the group is empty.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # bytes of the command line that are no UTF-8 arrive as surrogates
        raise UsageError(f"{_shown(text)} is no name of a group: it is not UTF-8.") from None
    # librdkafka takes names as strings of C, which end there: another group would be meant.
    if "\0" in text:
        raise UsageError(f"{_shown(text)} is no name of a group: it has a NUL character.")
    if size > GROUP_BYTES_MAX:
        raise UsageError(f"The group {_shown(text)} is too long: a name has at most {GROUP_BYTES_MAX} bytes.")
    return text


def _shown(text: str) -> str:
    """A name as it may stand in a sentence: bounded, on one line."""
    return ascii(text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}...")


Bootstrap = Annotated[
    str,
    typer.Option("--bootstrap", "-b", metavar="HOST:PORT", envvar="HUTONG_BOOTSTRAP", help="Broker to connect to."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line, instead of a table.")]
AsDocument = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", parser=topic_name, show_default=False)]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", parser=group_name, show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def assigned(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    """Return the names and values of a repeatable option. Raises UsageError."""
    pairs = [text.partition("=") for text in texts or []]
    for name, equals, _ in pairs:
        if not equals:
            raise UsageError(f"{option} {name} has no value; write {option} name=value.")
    return [(name, value) for name, _, value in pairs]
