"""Options that several commands share, so that they read the same everywhere."""

from typing import Annotated

import typer

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
