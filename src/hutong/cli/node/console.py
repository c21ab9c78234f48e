"""The command `hutong console`: the console alone, in front of any Kafka cluster.

Knows nothing of what a console shows: `hutong.console` does.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from hutong.cli.options import DEFAULT_BOOTSTRAP
from hutong.foundation.errors import ExitCode, UsageError

DEFAULT_LISTEN = "127.0.0.1:8080"


def console(
    bootstrap: Annotated[
        str,
        typer.Option("--bootstrap", "-b", metavar="HOST:PORT", envvar="HUTONG_BOOTSTRAP", help="Brokers to show."),
    ] = DEFAULT_BOOTSTRAP,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where browsers find it.")
    ] = DEFAULT_LISTEN,
    client_config: Annotated[
        Path | None,
        typer.Option(
            "--client-config", metavar="FILE", help="Properties of librdkafka for TLS and SASL, one name=value a line."
        ),
    ] = None,
    schema_registry: Annotated[
        str | None, typer.Option("--schema-registry", metavar="URL", help="Schema registry to show.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse everything that changes something.")] = False,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings as TOML.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="As `hutong serve` takes it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ready line as a JSON object.")] = False,
) -> int:
    """Serve the console for any Kafka cluster, until Ctrl-C."""
    import asyncio
    from argparse import Namespace

    from hutong.cli.node.serve import flags_of, outer_ports, ready_line
    from hutong.runtime.loops.loops import new_event_loop
    from hutong.server.composition import NodeAddresses
    from hutong.server.configuration.loader import load
    from hutong.server.serving import serve_console

    _check_brokers(bootstrap)
    flags = flags_of(Namespace(set=assignments or []))
    flags |= {"console.log": f"kafka://{bootstrap}", "console.listen": listen}
    if client_config is not None:
        flags["console.client_config"] = str(client_config)
    if schema_registry is not None:
        flags["console.schema_registry"] = schema_registry
    if read_only:
        flags["console.read_only"] = "true"
    settings = load(config, flags=flags).settings

    def ready(addresses: NodeAddresses) -> None:
        print(ready_line({"console": addresses.console}, os.getpid(), as_json=as_json), flush=True)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve_console(settings, ready=ready, outer=outer_ports(settings)))
    return 0


def _check_brokers(bootstrap: str) -> None:
    """Say where no broker answers; one may come later. Raises UsageError for what is no address."""
    from hutong.cli.kafka.client import reach

    try:
        reach(bootstrap)
    except UsageError as error:
        if error.exit_code != ExitCode.UNAVAILABLE:
            raise
        print(f"hutong: {error} The console starts all the same.", file=sys.stderr)
