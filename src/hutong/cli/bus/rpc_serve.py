"""`hutong rpc serve`: a node for one's own services, until a signal stops it.

Strategy: a function of the user's binds the services to the node's `Rpc`; when it is done, the ready line says where
they are. They end in the opposite order: the listeners first, then the services, then the node.

Knows nothing of what the services are.
"""

import asyncio
import atexit
import logging
import os
import signal
import sys
from collections.abc import Callable
from inspect import isawaitable, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from hutong.cli.bus.rpc_calls import DEFAULT_NODE
from hutong.cli.loading import load
from hutong.cli.node.serve import LOG_FORMAT, ready_line
from hutong.foundation.errors import UsageError


def serve(
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", show_default=False)],
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where other processes call (hutong.rpc.connect); 127.0.0.1:7100 if there is no --grpc.",
        ),
    ] = None,
    grpc: Annotated[
        str | None, typer.Option("--grpc", metavar="HOST:PORT", help="Where clients of any language call by gRPC.")
    ] = None,
    grpc_certificate: Annotated[
        Path | None, typer.Option("--grpc-certificate", metavar="FILE", help="Certificate (PEM): gRPC over TLS.")
    ] = None,
    grpc_key: Annotated[
        Path | None, typer.Option("--grpc-key", metavar="FILE", help="Its key, where that is in another file.")
    ] = None,
    allow_plain: Annotated[
        bool, typer.Option("--allow-plain", help="Even where others than this machine can connect without TLS.")
    ] = False,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Be a broker too, and keep in DIR what it holds.")
    ] = None,
    is_traced: Annotated[
        bool, typer.Option("--tracing", help="Trace calls, to where OpenTelemetry's variables say (OTEL_...).")
    ] = False,
    log_level: Annotated[str, typer.Option("--log-level", metavar="LEVEL")] = "info",
    as_json: Annotated[bool, typer.Option("--json", help="Print the ready line as a JSON object.")] = False,
) -> None:
    """Serve what FUNCTION binds: it is called with the node's Rpc, and may be async."""
    bind = load(function, "function")
    if not takes_one(bind):
        raise UsageError(
            f"{function} is no function of one argument; write one that binds services to the Rpc it gets."
        )
    if listen is None and grpc is None:
        listen = DEFAULT_NODE
    if grpc_certificate is not None and grpc is None:
        raise UsageError("--grpc-certificate is for --grpc HOST:PORT, which is not there.")
    if log_level.upper() not in logging.getLevelNamesMapping():
        raise UsageError(f"--log-level {log_level} is no level; choose debug, info, warning or error.")
    logging.basicConfig(level=log_level.upper(), stream=sys.stderr, format=LOG_FORMAT)
    options: dict[str, Any] = {
        "data_dir": data_dir,
        "grpc": grpc,
        "allow_plain": ("rpc", "grpc") if allow_plain else (),
    }
    if listen is not None:
        options["rpc"] = listen
    if grpc_certificate is not None:
        from hutong.rpc.grpc import GrpcTls

        options["grpc_tls"] = GrpcTls(grpc_certificate, grpc_key)
    from hutong.runtime.loops.loops import new_event_loop

    if is_traced:
        from hutong.tracing.environment import EnvironmentTracing

        own = EnvironmentTracing()
        options["tracing"] = own.tracing
        atexit.register(own.close)  # sends what is left
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(bind, function, options, as_json=as_json))


def takes_one(function: object) -> bool:
    """True if it can be called with the Rpc."""
    if not callable(function) or isinstance(function, type):
        return False
    try:
        signature(function).bind(None)
    except (TypeError, ValueError):
        return False
    return True


async def _serve(bind: Callable[[Any], object], name: str, options: dict[str, Any], *, as_json: bool) -> None:
    from hutong.server.embedded import Node

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Node(**options) as node:
        bound = bind(node.rpc)
        if isawaitable(bound):
            await bound
        if not node.rpc.registry.bindings:
            raise UsageError(f"{name} has bound no service; in it, `await rpc.bind(PROTOCOL, IMPLEMENTATION)`.")
        listeners = {"rpc": node.rpc_address, "grpc": node.grpc, "kafka": node.kafka}
        print(ready_line(listeners, os.getpid(), as_json=as_json), flush=True)
        await stop.wait()
