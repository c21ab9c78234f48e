"""`hutong rpc`: run your own services, call those of a node, print a service's `.proto`.

Strategy: a Protocol is described here by the function that binding uses, so the `.proto` printed is what gRPC offers.

Knows nothing of how types are mapped.
"""

import sys
from difflib import unified_diff
from pathlib import Path
from typing import Annotated, Final

import typer

from hutong.cli.bus import rpc_calls, rpc_serve
from hutong.cli.loading import load
from hutong.foundation.errors import ExitCode, UsageError

PROTO_BYTES_MAX: Final = 16 * 1024 * 1024

app = typer.Typer(
    name="rpc", help="Services: run one's own, call those of a node, print their .proto for gRPC.", no_args_is_help=True
)
app.command("serve")(rpc_serve.serve)
app.command("list")(rpc_calls.list_services)
app.command("describe")(rpc_calls.describe)
app.command("call")(rpc_calls.call)
app.command("stats")(rpc_calls.stats)


@app.command()
def proto(
    protocol: Annotated[str, typer.Argument(metavar="MODULE:PROTOCOL", show_default=False)],
    package: Annotated[
        str | None, typer.Option("--package", metavar="NAME", help="Package instead of the service's address.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Print nothing; fail where FILE says something else."),
    ] = None,
) -> None:
    """Print the .proto of a service, for clients in other languages."""
    from hutong.rpc.descriptions.description import describe
    from hutong.rpc.grpc.proto.mapping import map_service
    from hutong.rpc.grpc.proto.text import render

    text = render(map_service(describe(load(protocol, "protocol")), package).schema)
    if check is None:
        sys.stdout.write(text)
    else:
        _compare(text, check, protocol)


def _compare(text: str, file: Path, protocol: str) -> None:
    try:
        with file.open("rb") as opened:
            kept = opened.read(PROTO_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f"Cannot read {file}: {reason}.", ExitCode.NOINPUT) from None
    if kept != text:
        difference = unified_diff(kept.splitlines(), text.splitlines(), str(file), protocol, lineterm="")
        sys.stderr.writelines(f"{line}\n" for line in difference)
        raise UsageError(
            f"{file} is not what {protocol} says now; if clients can live with that, print it anew with "
            f"`hutong rpc proto {protocol} > {file}`.",
            ExitCode.DATAERR,
        )
