"""Directives that write what only the code knows: settings, the help of commands, protocol versions, metrics.

Knows nothing of the pages: each directive returns the table or the text, the page puts it in its place.
"""

import contextlib
import io
import os
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

TERMINAL_COLUMNS = "100"


class SettingsTable(SphinxDirective):
    """Every setting of a node, or of the sections that are named, a table per section."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        from hutong.server.configuration.settings import all_settings

        rows: dict[str, list[list[str]]] = {}
        sections = self.arguments[0].split() if self.arguments else None
        for setting in all_settings():
            if sections is not None and setting.section not in sections:
                continue
            default = "" if setting.default is None else str(setting.default)
            default = default.lower() if isinstance(setting.default, bool) else default
            kafka_name = f"`{setting.facts.kafka_name}`" if setting.facts.kafka_name else ""
            row = [f"`{setting.key}`", f"`{default}`" if default else "", setting.facts.meaning, kafka_name]
            rows.setdefault(setting.section, []).append(row)
        lines: list[str] = []
        for section, entries in rows.items():
            lines += ["", f"**`[{section}]`**", "", *_table(["Key", "Default", "Meaning", "Kafka's name"], entries)]
        return self.parse_text_to_nodes("\n".join(lines))


class ApiTable(SphinxDirective):
    """Every Kafka API that a node speaks, with the versions it accepts."""

    def run(self) -> list[nodes.Node]:
        from hutong.broker.kafka import HANDLERS
        from hutong.wire.kafka.registry import APIS

        rows = [
            [str(api.key), api.name, f"{api.versions.start}-{api.versions.stop - 1}", str(api.flexible_from or "")]
            for api in sorted(APIS.values(), key=lambda api: api.key)
            if api.key in HANDLERS
        ]
        return self.parse_text_to_nodes("\n".join(_table(["Key", "API", "Versions", "Flexible from"], rows)))


class MetricsTable(SphinxDirective):
    """Every metric of a node."""

    def run(self) -> list[nodes.Node]:
        from hutong.server.monitoring.metrics import METRICS

        families = [metric.family for metric in METRICS]
        rows = [
            [f"`{family.name}`", family.kind.value, ", ".join(f"`{label}`" for label in family.labels), family.meaning]
            for family in families
        ]
        return self.parse_text_to_nodes("\n".join(_table(["Metric", "Kind", "Labels", "Meaning"], rows)))


class RightsTable(SphinxDirective):
    """The ACL operations that each Kafka API needs."""

    def run(self) -> list[nodes.Node]:
        from hutong.broker.apis import BROKER_APIS
        from hutong.wire.kafka.registry import APIS

        rows = []
        for key, api in BROKER_APIS.items():
            asked = [" or ".join(f"`{what.name}` of {_KINDS[kind]}" for what, kind in need) for need in api.needs]
            rows.append([str(key), APIS[key].name, "; ".join(asked) or f"nothing: it {api.is_open}"])
        return self.parse_text_to_nodes("\n".join(_table(["Key", "API", "Asks for"], rows)))


_KINDS = {2: "the topic", 3: "the group", 4: "the cluster", 5: "the transactional id"}


class CommandHelp(SphinxDirective):
    """The output of `hutong COMMAND --help`."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        from hutong.cli.main import run

        # A fixed width and no colour, so that the page does not depend on who builds it.
        os.environ |= {"COLUMNS": TERMINAL_COLUMNS, "TERMINAL_WIDTH": TERMINAL_COLUMNS, "NO_COLOR": "1"}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = run([*self.arguments[0].split(), "--help"])
        if code:
            raise self.error(f"hutong {self.arguments[0]} --help ended with {code}")
        text = "\n".join(line.rstrip() for line in printed.getvalue().strip("\n").splitlines())
        return [nodes.literal_block(text, text, language="text")]


def _table(heading: list[str], rows: list[list[str]]) -> list[str]:
    lines = [heading, ["---"] * len(heading), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("settings-table", SettingsTable)
    app.add_directive("api-table", ApiTable)
    app.add_directive("metrics-table", MetricsTable)
    app.add_directive("rights-table", RightsTable)
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
