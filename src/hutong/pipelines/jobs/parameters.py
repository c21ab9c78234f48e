"""Sources and parameters that several jobs read in the same way, with the same error messages."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hutong.foundation.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MIB = 2**20
MINUTE_MS = 60_000
KEPT, NOW = "kept", "now"

FrameT = TypeVar("FrameT")


def the_only(frames: Mapping[str, FrameT], job: str) -> FrameT:
    """The one source of a job that reads one. Raises UsageError."""
    if len(frames) != 1:
        raise UsageError(f"the job {job} reads one source, and there are {len(frames)}: {', '.join(frames) or 'none'}")
    return next(iter(frames.values()))


def needed(parameters: Mapping[str, str], name: str, job: str) -> str:
    """A parameter that has no default. Raises UsageError."""
    if not parameters.get(name):
        raise UsageError(f"the job {job} needs the parameter {name}: set it under [transform] parameters")
    return parameters[name]


def whole_number(parameters: Mapping[str, str], name: str, least: int = 0) -> int:
    """Raises UsageError."""
    text = parameters[name].strip()
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise UsageError(f"parameter {name} is '{text}': it must be a whole number from {least}")
    return int(text)


def flag(parameters: Mapping[str, str], name: str) -> bool:
    """Raises UsageError."""
    text = parameters[name].strip().lower()
    if text not in ("yes", "no", "true", "false"):
        raise UsageError(f"parameter {name} is '{text}': it must be yes or no")
    return text in ("yes", "true")


def names(parameters: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Names with commas between them. Raises UsageError when there is none."""
    found = tuple(part.strip() for part in parameters[name].split(",") if part.strip())
    if not found:
        raise UsageError(f"parameter {name} is empty: name at least one column, several with commas")
    return found


def need_columns(frame: "DataFrame", columns: tuple[str, ...], job: str) -> None:
    """Raises UsageError when the source lacks one of them."""
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        has = ", ".join(frame.columns)
        raise UsageError(f"the job {job} needs the column {missing[0]}, and the source has {has}")


def resolved_path(folder: Path, path: str) -> str:
    """Resolve a path relative to the folder of the pipeline's file."""
    return path if "://" in path or path.startswith("file:") else str(folder.absolute() / path)


def keeps_timestamps(parameters: Mapping[str, str]) -> bool:
    """Return True if replayed records keep their timestamps. Raises UsageError."""
    if parameters["timestamps"] not in (KEPT, NOW):
        raise UsageError(f"parameter timestamps is '{parameters['timestamps']}': it must be '{KEPT}' or '{NOW}'")
    return parameters["timestamps"] == KEPT
