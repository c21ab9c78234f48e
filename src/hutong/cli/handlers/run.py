"""`hutong run`: the handlers of an app, until a signal stops them.

Strategy: one worker runs in this process. Several, or --reload, are processes of the same command under a supervisor.

Knows nothing of what the handlers do.
"""

import asyncio
import atexit
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hutong.cli.handlers.finding import checked_module, find_app
from hutong.cli.output import print_json
from hutong.foundation.errors import UsageError
from hutong.handlers.app import checked_bootstrap

if TYPE_CHECKING:
    from hutong.handlers.app import App

WORKERS_MAX: Final = 256
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def run(
    target: Annotated[str, typer.Argument(metavar="MODULE[:APP]", show_default=False)],
    workers: Annotated[int, typer.Option("--workers", "-w", metavar="N", help="Processes that share the work.")] = 1,
    is_reloading: Annotated[
        bool, typer.Option("--reload", help="Start again when a file of the module has changed; for development.")
    ] = False,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT",
            envvar="HUTONG_BOOTSTRAP",
            help="In the place of the app's broker.",
        ),
    ] = None,
    asyncapi: Annotated[bool, typer.Option("--asyncapi", help="Print the AsyncAPI document (JSON) and end.")] = False,
    asyncapi_page: Annotated[
        bool, typer.Option("--asyncapi-page", help="Print the AsyncAPI document as a page (HTML) and end.")
    ] = False,
    is_traced: Annotated[
        bool,
        typer.Option("--tracing", help="Send spans and figures of handlers by OTLP; OTEL_* variables say where to."),
    ] = False,
    log_level: Annotated[str, typer.Option("--log-level", metavar="LEVEL")] = "info",
) -> int:
    """Run the handlers of an App (hutong.handlers) until SIGTERM or Ctrl-C; both wait for what is being handled."""
    if not 1 <= workers <= WORKERS_MAX:
        raise UsageError(f"--workers {workers}: from 1 to {WORKERS_MAX} processes run an app.")
    if log_level.upper() not in logging.getLevelNamesMapping():
        raise UsageError(f"--log-level {log_level} is no level; choose debug, info, warning or error.")
    if asyncapi:
        print_json(find_app(target).asyncapi())
        return 0
    if asyncapi_page:
        print(find_app(target).asyncapi_page(), end="")
        return 0
    if bootstrap is not None:
        checked_bootstrap(bootstrap)
    if workers > 1 or is_reloading:
        command = ["run", target, "--log-level", log_level]
        command += ["--bootstrap", bootstrap] if bootstrap is not None else []
        command += ["--tracing"] if is_traced else []
        return asyncio.run(_supervise(target, command, workers, is_reloading=is_reloading))
    app = find_app(target)
    if bootstrap is not None:
        app.bootstrap = bootstrap
    logging.basicConfig(level=log_level.upper(), stream=sys.stderr, format=LOG_FORMAT)
    if is_traced:
        from hutong.tracing.environment import EnvironmentTracing

        own = EnvironmentTracing()
        app.tracing = own.tracing
        atexit.register(own.close)  # sends what is left
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(app))
    return 0


async def _work(app: "App") -> None:
    from hutong.handlers.running.signals import stopped_by_signal

    async with stopped_by_signal() as stopped, app.running() as running:
        names = {
            "topics": ",".join(sorted({topic for handler in app.topic_handlers for topic in handler.topics})),
            "addresses": ",".join(handler.address for handler in app.address_handlers),
        }
        shown = " ".join(f"{name}={value}" for name, value in names.items() if value)
        print(f"ready {shown} pid={os.getpid()}", flush=True)
        await running.until_halted_or(stopped)


async def _supervise(target: str, command: list[str], workers: int, *, is_reloading: bool) -> int:
    from hutong.cli.handlers.supervisor import WorkerProcesses
    from hutong.cli.handlers.watching import WatchedModule

    if "" not in sys.path:  # the current folder comes first, as for the workers
        sys.path.insert(0, "")
    checked_module(target)
    changed = WatchedModule(target).changed if is_reloading else None
    stopping, killing = asyncio.Event(), asyncio.Event()

    def signalled() -> None:
        (killing if stopping.is_set() else stopping).set()

    loop: Any = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    return await WorkerProcesses(command, workers, changed).run(stopping, killing)
