"""The tree of commands, apart from what `hutong serve` runs.

Strategy: one module per topic of work, each with its own typer application. What a command needs beyond typer (the
Kafka client, tables, Spark) is imported inside the command, so that `--help` and a typing error cost nothing.

Knows nothing of exit codes beyond what a command returns.
"""

from typing import Annotated, Any, Final

import typer

from hutong.cli import pipeline
from hutong.cli.bus import bus, rpc
from hutong.cli.cluster import commands as cluster
from hutong.cli.handlers import run
from hutong.cli.kafka import actor, client_config, consume, group, produce, topic, user
from hutong.cli.node import cert, configuration, console, demo, inspection, serve, simulate
from hutong.foundation.errors import ExitCode, UsageError

# The base of typer's errors: click's before 0.26, a copy of typer's own in 0.26 and 0.27, `TyperException` since.
_REFUSAL: Final[Any] = [kind for kind in typer.BadParameter.__mro__ if hasattr(kind, "format_message")][-1]

app = typer.Typer(
    name="hutong",
    help="A messaging broker in Python: Kafka clients connect to it unchanged, pipelines run on Spark.",
    no_args_is_help=True,
    add_completion=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)


@app.command(
    "serve",
    help="Run a node until it is stopped.",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def _serve(context: typer.Context) -> int:
    return serve.serve(list(context.args))


app.add_typer(topic.app, name="topic")
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.command("tail")(consume.tail)
app.add_typer(group.app, name="group")
app.add_typer(cluster.app, name="cluster")
app.add_typer(actor.app, name="actor")
app.add_typer(user.app, name="user")
app.add_typer(bus.app, name="bus")
app.add_typer(rpc.app, name="rpc")
app.command("run")(run.run)
app.add_typer(pipeline.app, name="pipeline")
app.command("console")(console.console)
app.command("demo")(demo.demo)
app.add_typer(cert.app, name="cert")
app.command("config")(configuration.config)
app.command("dump")(inspection.dump)
app.command("doctor")(inspection.doctor)
app.command("simulate")(simulate.simulate)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"hutong {version_of('hutong')}")
        raise typer.Exit


def run_app(arguments: list[str]) -> int:
    """The exit code of the command. Raises UsageError for what typer refuses, in one sentence."""
    commands = typer.main.get_command(app)
    client_config.offer(commands)
    try:
        code = commands(arguments, prog_name="hutong", standalone_mode=False)
    except _REFUSAL as error:
        message = error.format_message().strip()
        if not message:  # typer has printed the help of a command that was called with nothing
            return ExitCode.USAGE
        sentence = message if message.endswith((".", "?", "!")) else f"{message}."
        raise UsageError(f"{sentence} `hutong --help` lists the commands.") from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0
