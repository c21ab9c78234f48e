"""The properties file by which commands reach a secured broker, in librdkafka's form, one `name=value` a line.

Strategy: one option, added to every command that talks to a broker by the Kafka client, so that they read the same;
the file's properties apply to the one command that is run. Properties that would run programs or load code are refused.

Knows nothing of what commands do.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.main

from hutong.server.bus.client_properties import read

VARIABLE: Final = "HUTONG_CLIENT_CONFIG"
COMMANDS: Final = ("topic", "produce", "consume", "tail", "group", "cluster", "user")
_BOOTSTRAP: Final = "bootstrap.servers"

_current: dict[str, str] = {}


def current() -> Mapping[str, str]:
    """The properties in the command's file; empty where none was named."""
    return _current


def offer(group: Any) -> None:
    """Add the option to the commands that need it, and to those of a group of them."""
    carrier = typer.Typer(add_completion=False)
    carrier.command()(_carry)
    (option,) = (one for one in typer.main.get_command(carrier).params if "--client-config" in one.opts)
    for name in COMMANDS:
        command = group.commands[name]
        for one in getattr(command, "commands", {name: command}).values():
            if not hasattr(one, "commands"):  # `cluster dev` starts nodes of its own
                one.params.append(option)


def _use(context: typer.Context, path: str | None) -> str | None:
    _current.clear()
    if path:
        _current.update(read(Path(path).expanduser()))
    place = _current.pop(_BOOTSTRAP, None)
    if place is not None:
        context.default_map = {**(context.default_map or {}), "bootstrap": place}
    return path


def _carry(
    client_config: Annotated[
        str | None,
        typer.Option(
            "--client-config",
            metavar="FILE",
            envvar=VARIABLE,
            expose_value=False,
            is_eager=True,  # so that it can say where the broker is
            callback=_use,
            help="Properties of librdkafka for TLS and SASL, one name=value a line.",
        ),
    ] = None,
) -> None:
    """A command that only carries the option."""
