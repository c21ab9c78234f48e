"""`hutong config`: the settings in force and where each one came from."""

from argparse import Namespace
from pathlib import Path
from typing import Annotated

import typer

from hutong.cli.node.serve import flags_of
from hutong.cli.options import AsJson
from hutong.cli.output import print_rows
from hutong.server.configuration.loader import load


def config(
    file: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings as TOML.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="As `hutong serve` takes it.")
    ] = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from the default.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print every setting, its value and its source: file, environment, flag or default."""
    effective = load(file, flags=flags_of(Namespace(set=assignments or [])))
    rows = [
        {
            "setting": setting.name,
            "value": value,
            "source": source,
            "kafka_name": setting.facts.kafka_name,
            "meaning": setting.facts.meaning,
        }
        for setting, value, source in effective.rows()
        if source != "default" or not changed
    ]
    print_rows(rows, ("setting", "value", "source", "kafka_name"), as_json=as_json)
