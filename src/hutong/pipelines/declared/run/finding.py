"""Finds the pipeline's file for a path, a pipeline's name, or nothing if the folder holds just one pipeline."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.declared.declare.definition import NAME
from hutong.pipelines.declared.declare.problems import suggestion
from hutong.pipelines.declared.declare.reading import SUFFIXES
from hutong.pipelines.declared.declare.toml_text import FILE_BYTES_MAX, read_toml
from hutong.pipelines.declared.run.run_folder import PipelineFolder, state_folder

PYTHON_MARK = "Pipeline("
"""The text by which a Python file is recognized as a pipeline, without running it."""


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """A pipeline's file and name. The name of one in Python is its file's until the file is run."""

    name: str
    file: Path


def pipelines_in(folder: Path) -> list[PipelineFile]:
    """The pipelines whose files lie in a folder, by name."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    except OSError:
        return []
    found = [PipelineFile(name, file) for file in files if (name := _name_in(file)) is not None]
    return sorted(found, key=lambda one: one.name)


def find(wanted: str | None, folder: Path) -> Path:
    """Raises UsageError when there is no such pipeline, or several to choose from."""
    if wanted is not None and (Path(wanted).suffix in SUFFIXES or "/" in wanted):
        path = folder / wanted
        if not path.is_file():
            near = suggestion(path.name, [one.file.name for one in pipelines_in(path.parent)])
            raise UsageError(f"there is no file {wanted}{near}", ExitCode.NOINPUT)
        return path
    found = pipelines_in(folder)
    names = [one.name for one in found]
    if wanted is None:
        if len(found) == 1:
            return found[0].file
        if not found:
            raise UsageError("there is no pipeline here: make one with hutong pipeline init NAME", ExitCode.NOINPUT)
        raise UsageError(f"say which pipeline: there are {', '.join(names)}")
    matching = [one.file for one in found if wanted in (one.name, one.file.stem)]
    if not matching:
        raise UsageError(f"there is no pipeline {wanted} here{suggestion(wanted, names)}", ExitCode.NOINPUT)
    if len(matching) > 1:
        files = ", ".join(path.name for path in matching)
        raise UsageError(f"several files hold a pipeline {wanted}: {files}; name the file")
    return matching[0]


def folder_of(file: Path, name: str, state: Path | None) -> PipelineFolder:
    """Return the folder of a pipeline's state. Raises UsageError for a name that could lead elsewhere."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{file.name}: pipeline.name is {name!r}: take small letters, digits and dashes, at most 100",
            ExitCode.CONFIG,
        )
    return PipelineFolder(state_folder(state, file.absolute().parent) / name)


def _name_in(file: Path) -> str | None:
    if file.suffix == ".py":
        return _name_in_python(file)
    try:
        head = read_toml(file).get("pipeline")
    except (OSError, ValueError):
        return None
    name = head.get("name") if isinstance(head, Mapping) else None
    return name if isinstance(name, str) else None


def _name_in_python(file: Path) -> str | None:
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(FILE_BYTES_MAX)
    except (OSError, UnicodeDecodeError):
        return None
    return file.stem if PYTHON_MARK in text and "hutong.pipelines" in text else None
