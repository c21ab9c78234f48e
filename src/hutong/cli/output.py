"""Output of commands: tables for people, JSON for scripts, progress for a terminal.

Strategy: data goes to standard output and nothing else does; progress and remarks go to standard error, and progress
only where that is a terminal. Text that came from a broker may hold control characters: it is shown escaped in a table,
so that a record cannot drive the reader's terminal.

Knows nothing of brokers or topics.
"""

import base64
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

Row = Mapping[str, Any]

DECIMALS = 3
COLUMNS_OF_A_FILE = 1000  # a reader of a pipe wants each row on one line


def print_rows(rows: Iterable[Row], columns: Sequence[str], *, as_json: bool, title: str | None = None) -> None:
    """One JSON object a line, or a table whose headings are the keys with spaces for underscores."""
    if as_json:
        for row in rows:
            print_json(row)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        is_number = all(isinstance(row[column], int | float | None) for row in rows) and bool(rows)
        justify: Literal["left", "right"] = "right" if is_number else "left"
        # The first column names the row: it stays on one line, however narrow the terminal is.
        table.add_column(column.replace("_", " "), justify=justify, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(_cell(row[column])) for column in columns))
    Console(width=None if sys.stdout.isatty() else COLUMNS_OF_A_FILE).print(table)


def print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False, default=str) + "\n")


def remark(message: str) -> None:
    """A sentence for a person; never part of the output."""
    sys.stderr.write(message + "\n")


def printable(text: str) -> str:
    """`text` with control characters as escapes."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def text_or_base64(value: bytes | None) -> str | dict[str, str] | None:
    """A value for JSON: text when it is UTF-8, else `{"base64": ...}`."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def utc(timestamp_ms: int) -> str:
    """ISO 8601 with milliseconds. Raises nothing: a time outside the calendar is shown as its number."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def progress(label: str) -> Iterator[Callable[[int], None]]:
    """Yield `advance(count)`. Counts on standard error where that is a terminal; shows nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}: {task.completed:,}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda count: bar.advance(task, count)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.{DECIMALS}f}".rstrip("0").rstrip(".")
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return printable(str(value))
