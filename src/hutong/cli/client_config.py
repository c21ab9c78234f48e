"""The file that says how commands reach a secured broker: librdkafka's properties, one `name=value` a line.

Strategy: one option, added to every command that talks to a broker by the Kafka client, so that they read the same;
what its file says counts for the command that is run. Properties that would run programs or load code are refused.

Knows nothing of what commands do.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.main

from hutong.foundation.errors import UsageError

VARIABLE: Final = "HUTONG_CLIENT_CONFIG"
COMMANDS: Final = ("topic", "produce", "consume", "tail", "group", "user")
FILE_BYTES_MAX: Final = 64 * 1024
_BOOTSTRAP: Final = "bootstrap.servers"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_RUNS_CODE: Final = frozenset(
    ("plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location", "ssl.providers")
)
_EXIT_NO_INPUT: Final = 66
_EXIT_CONFIG: Final = 78

_current: dict[str, str] = {}


def current() -> Mapping[str, str]:
    """What the file of the command that is run says; nothing where none was named."""
    return _current


def read(path: Path) -> dict[str, str]:
    """The properties of a file. Raises UsageError, which shows no value."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"Cannot read the client's configuration {path}: {error.strerror}.", _EXIT_NO_INPUT) from None
    if len(data) > FILE_BYTES_MAX:
        raise UsageError(f"{path} is larger than {FILE_BYTES_MAX} bytes.", _EXIT_CONFIG)
    properties: dict[str, str] = {}
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(f"Line {number} of {path} is no property; write name=value.", _EXIT_CONFIG)
        if name in _RUNS_CODE:
            raise UsageError(f"{path} has {name}, which runs or loads programs; leave it out.", _EXIT_CONFIG)
        if name == "sasl.jaas.config":
            raise UsageError(
                f"{path} has sasl.jaas.config, which only Java reads; write sasl.username and sasl.password.",
                _EXIT_CONFIG,
            )
        properties[name] = value
    return properties


def offer(group: Any) -> None:
    """Add the option to the commands that need it, and to those of a group of them."""
    carrier = typer.Typer(add_completion=False)
    carrier.command()(_carry)
    (option,) = (one for one in typer.main.get_command(carrier).params if "--client-config" in one.opts)
    for name in COMMANDS:
        command = group.commands[name]
        for one in getattr(command, "commands", {name: command}).values():
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
