"""`hutong cert`: certificates to try TLS out with.

Knows nothing of how they are made: `hutong.security.development` does.
"""

import shlex
import socket
from pathlib import Path
from typing import Annotated

import typer

from hutong.cli.output import print_json, remark
from hutong.security.development import DAYS, DAYS_MAX, SERVER_NAMES, DevelopmentAuthority

app = typer.Typer(name="cert", help="Certificates for TLS.", no_args_is_help=True)


@app.callback()
def _cert() -> None:
    """Keep `dev` a command of its own, also while it is the only one."""


@app.command()
def dev(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where the files go; an authority there is kept.")
    ] = Path("hutong-certs"),
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="Further names or addresses by which clients reach the node."),
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option("--client", metavar="NAME", help="Also a certificate for this client.")
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=DAYS_MAX, help="How long they are valid.")] = DAYS,
    json: Annotated[bool, typer.Option("--json", help="Print the files as a JSON object.")] = False,
) -> None:
    """Make an authority, a certificate for a node and some for clients. Not for production: all keys lie side by side.

    A second call in the same folder makes new certificates of the same authority; a running node loads them.
    """
    authority = DevelopmentAuthority(folder, days)
    server = authority.server((*SERVER_NAMES, socket.gethostname(), *(host or ())))
    clients = {name: authority.client(name) for name in client or ()}
    if json:
        print_json(
            {
                "ca": authority.files.certificate,
                "certificate": server.certificate,
                "key": server.key,
                "clients": {name: {"certificate": pair.certificate, "key": pair.key} for name, pair in clients.items()},
            }
        )
        return
    remark(f"{'Made' if authority.is_new else 'Kept'} the authority {authority.files.certificate}.")
    for pair in (server, *clients.values()):
        remark(f"Made {pair.certificate}, valid for {days} days, and its key.")
    words = ["hutong", "serve", "--listener", "SSL://127.0.0.1:9093"]
    settings = {"tls.certificate": server.certificate, "tls.key": server.key}
    if clients:
        settings |= {"tls.client_ca": authority.files.certificate}
        words += ["--set", "tls.client_auth=required"]
    for name, file in settings.items():
        words += ["--set", f"{name}={file}"]
    typer.echo(shlex.join(words))
