"""Options that several commands share, so that they read the same everywhere."""

from typing import Annotated

import typer

from hutong.foundation.errors import UsageError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

Bootstrap = Annotated[
    str,
    typer.Option("--bootstrap", "-b", metavar="HOST:PORT", envvar="HUTONG_BOOTSTRAP", help="Broker to connect to."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line, instead of a table.")]
AsDocument = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def assigned(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    """Return the names and values of a repeatable option. Raises UsageError."""
    pairs = [text.partition("=") for text in texts or []]
    for name, equals, _ in pairs:
        if not equals:
            raise UsageError(f"{option} {name} has no value; write {option} name=value.")
    return [(name, value) for name, _, value in pairs]
