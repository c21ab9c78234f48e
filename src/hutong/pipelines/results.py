"""Result files: written whole or not at all, so that a reader never sees half of one."""

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from hutong.foundation.errors import ExitCode, UsageError


def prepare_folder(folder: Path) -> Path:
    """Make the output folder where it is missing. Raises UsageError when that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the output folder {folder} cannot be made: {error.strerror}", ExitCode.CANTCREAT) from error
    if not os.access(folder, os.W_OK):
        raise UsageError(f"the output folder {folder} is not writable", ExitCode.CANTCREAT)
    return folder


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Replace `path`: a line of column names, then the rows. Floats keep all their digits."""
    draft = path.with_name(f".{path.name}.new")
    with draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    draft.replace(path)


def write_text(path: Path, text: str) -> None:
    """Replace `path`."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(path)
