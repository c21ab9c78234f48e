"""Reads a pipeline from a file: TOML, or Python that holds `pipeline = Pipeline(...)`.

Strategy for TOML: for each kind of table, the types of its keys; values are converted or become problems, unknown keys
become problems with the nearest known one. `checking` judges the values together. `${NAME}` in a string is an
environment variable, so that files need no passwords.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.declared.declare.definition import Pipeline, Sink, Source, Transform, Watermark
from hutong.pipelines.declared.declare.problems import Problems, suggestion
from hutong.pipelines.declared.declare.toml_text import read_toml

SUFFIXES = (".toml", ".py")
TEXT, FLAG, NUMBER = "a text", "true or false", "a whole number"
TEXTS = 'a list of texts such as ["a", "b"]'
SETTINGS = 'a table such as { name = "value" }'
WATERMARK = '{ column = "timestamp", delay = "10 minutes" }'
QUERIES = 'a query, or a table of queries such as [transform.sql] and hours = "SELECT"'
"""The types of keys, in the words of the advice for a value of another type."""
Kinds = Mapping[str, str]

PIPELINE_KEYS: Kinds = {
    **dict.fromkeys(("name", "bootstrap", "trigger", "group"), TEXT),
    "restarts": NUMBER,
    "event_log": FLAG,
}
SOURCE_KEYS: Kinds = {
    **dict.fromkeys(("kind", "topic", "pattern", "path", "schema", "bootstrap", "starting"), TEXT),
    **dict.fromkeys(("key_format", "value_format", "key_schema", "value_schema"), TEXT),
    "topics": TEXTS,
    "static": FLAG,
    "watermark": WATERMARK,
    "options": SETTINGS,
}
TRANSFORM_KEYS: Kinds = {"sql": QUERIES, "function": TEXT, "job": TEXT, "parameters": SETTINGS}
SINK_KEYS: Kinds = {
    **dict.fromkeys(("kind", "from", "topic", "path", "bootstrap", "delivery"), TEXT),
    **dict.fromkeys(("output_mode", "key", "value_format"), TEXT),
    "partition_by": TEXTS,
    "options": SETTINGS,
}
_LOADED_HERE = "__hutong_pipeline__"  # an attribute of modules that this process has loaded by their files
TABLES = ("pipeline", "sources", "transform", "sinks", "kafka", "spark")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_pipeline(file: Path, environment: Mapping[str, str] = os.environ) -> tuple[Pipeline, Problems]:
    """A pipeline with what is wrong with its form. Raises UsageError when nothing can be read at all."""
    if not file.is_file():
        raise UsageError(f"there is no file {file}", ExitCode.NOINPUT)
    # Python builds a Pipeline whose types a checker knows, so there is nothing to convert.
    if file.suffix == ".py":
        return _from_python(file), Problems()
    try:
        document = read_toml(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} is not TOML: {error}", ExitCode.CONFIG) from error
    problems = Problems()
    return replace(_pipeline(document, problems, environment), file=file.absolute()), problems


def load_module(file: Path) -> ModuleType:
    """Run a Python file of the user's as a module of its stem's name. Raises UsageError when that fails."""
    specification = importlib.util.spec_from_file_location(file.stem, file)
    # None for a suffix that Python does not import.
    if specification is None or specification.loader is None or not file.is_file():
        raise UsageError(f"there is no Python file {file}", ExitCode.NOINPUT)
    known = sys.modules.get(file.stem)
    # Under that name the whole process would get the user's file, Spark's and our own code included.
    is_other = known is not None and not hasattr(known, _LOADED_HERE) and not _is_of(known, file)
    if file.stem in sys.stdlib_module_names or is_other:
        raise UsageError(f"{file} has the name of another module, {file.stem}: rename it", ExitCode.CONFIG)
    module = importlib.util.module_from_spec(specification)
    setattr(module, _LOADED_HERE, True)
    folder = str(file.parent.absolute())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as Python itself does for a script
    # Before it runs: dataclasses and pickling look the module up by its name.
    sys.modules[file.stem] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:  # the user's code may raise anything; its words are what helps
        line = _line_of(error, file)
        raise UsageError(f"{file}{line} cannot be run: {type(error).__name__}: {error}", ExitCode.CONFIG) from error
    return module


def _is_of(module: ModuleType, file: Path) -> bool:
    """True if the user's own code has imported this very file already."""
    return module.__file__ is not None and Path(module.__file__).absolute() == file.absolute()


def _from_python(file: Path) -> Pipeline:
    pipeline = getattr(load_module(file), "pipeline", None)
    if not isinstance(pipeline, Pipeline):
        raise UsageError(f"{file} has no pipeline: write pipeline = Pipeline(...) in it", ExitCode.CONFIG)
    return replace(pipeline, file=file.absolute())


def _line_of(error: Exception, file: Path) -> str:
    # Its traceback does not contain the file.
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f", line {error.lineno},"
    lines = []
    trace = error.__traceback__
    while trace is not None:
        # The innermost line in the user's own file, not in a library.
        if trace.tb_frame.f_code.co_filename == str(file):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f", line {lines[-1]}," if lines else ""


def _pipeline(document: dict[str, Any], problems: Problems, environment: Mapping[str, str]) -> Pipeline:
    reader = _Reader(problems, environment)
    # A misspelt table would otherwise be ignored without a word.
    for table in document.keys() - set(TABLES):
        problems.add(table, f"is no table of a pipeline{suggestion(table, TABLES)}")
    head = reader.table("pipeline", document.get("pipeline"), PIPELINE_KEYS)
    if "pipeline" not in document:
        problems.add("pipeline", 'the table is missing: begin the file with [pipeline] and name = "..."')
    elif "name" not in head:
        problems.add("pipeline.name", "is missing: a pipeline needs a name")
    sources = {
        name: Source(**reader.table(f"sources.{name}", table, SOURCE_KEYS))
        for name, table in reader.named("sources", document.get("sources"))
    }
    sinks = {
        name: _sink(reader.table(f"sinks.{name}", table, SINK_KEYS))
        for name, table in reader.named("sinks", document.get("sinks"))
    }
    transform = Transform(**reader.table("transform", document.get("transform", {}), TRANSFORM_KEYS))
    kafka, spark = (reader.value(name, document.get(name, {}), SETTINGS) or {} for name in ("kafka", "spark"))
    # Pipeline requires a name; its absence is reported already.
    head.setdefault("name", "")
    return Pipeline(sources=sources, sinks=sinks, transform=transform, kafka=kafka, spark=spark, **head)


def _sink(values: dict[str, Any]) -> Sink:
    # `from` is a keyword in Python, so the field has another name.
    if "from" in values:
        values["frame"] = values.pop("from")
    return Sink(**values)


class _Reader:
    """Converts TOML's values, noting what does not fit; what does not fit is left out."""

    def __init__(self, problems: Problems, environment: Mapping[str, str]) -> None:
        self._problems = problems
        self._environment = environment
        self._converters: Mapping[str, Callable[[str, Any], Any]] = {
            TEXT: self._text,
            TEXTS: self._texts,
            FLAG: self._flag,
            NUMBER: self._number,
            SETTINGS: self._settings,
            WATERMARK: self._watermark,
            QUERIES: self._queries,
        }

    def named(self, where: str, tables: Any) -> list[tuple[str, Any]]:
        """The tables of a table of tables."""
        if tables is None:
            return []
        if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
            self._problems.add(where, f"is not a table of tables: write [{where}.NAME]")
            return []
        return list(tables.items())

    def table(self, where: str, table: Any, kinds: Kinds) -> dict[str, Any]:
        """Convert the contents of a table; absent keys stay absent."""
        if table is None:
            return {}
        if not isinstance(table, dict):
            self._problems.add(where, f"is not a table: write [{where}]")
            return {}
        read = {}
        for key, value in table.items():
            # Reported and skipped, so that the rest of the table is checked in the same run.
            if key not in kinds:
                self._problems.add(f"{where}.{key}", f"is not known here{suggestion(key, kinds)}")
                continue
            converted = self.value(f"{where}.{key}", value, kinds[key])
            # Without a value that fits, the key's default holds.
            if converted is not None:
                read[key] = converted
        return read

    def value(self, where: str, value: Any, kind: str) -> Any:
        """Convert one value. Report one of another type, and return None."""
        converted = self._converters[kind](where, value)
        if converted is None:
            self._problems.add(where, f"is {value!r}: write {kind}")
        return converted

    def _settings(self, where: str, value: Any) -> dict[str, str] | None:
        """Options for Spark: numbers and truth values become text. Nested tables are keys with dots in them."""
        if not isinstance(value, dict):
            return None
        read: dict[str, str] = {}
        for key, one in value.items():
            if isinstance(one, dict):
                # TOML reads `spark.sql.shuffle.partitions = 8` as nested tables.
                nested = self._settings(f"{where}.{key}", one) or {}
                read |= {f"{key}.{name}": text for name, text in nested.items()}
            # Before int: bool is a subclass of it, and Spark writes true and false.
            elif isinstance(one, bool):
                read[key] = str(one).lower()
            elif isinstance(one, int | float):
                read[key] = str(one)
            elif (text := self.value(f"{where}.{key}", one, TEXT)) is not None:
                read[key] = text
        return read

    def _text(self, where: str, value: Any) -> str | None:
        return self._filled(where, value) if isinstance(value, str) else None

    def _texts(self, where: str, value: Any) -> tuple[str, ...] | None:
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(self._filled(where, one) for one in value)
        return None

    def _flag(self, _where: str, value: Any) -> bool | None:
        # TOML has truth values of its own, so text such as "yes" is a mistake.
        return value if isinstance(value, bool) else None

    def _number(self, _where: str, value: Any) -> int | None:
        # `true` is no number, though Python's bool is an int.
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _watermark(self, where: str, value: Any) -> Watermark | None:
        keys = {"column": TEXT, "delay": TEXT}
        read = self.table(where, value, keys) if isinstance(value, dict) else {}
        # Spark needs the column and the delay; half a watermark means nothing.
        return Watermark(**read) if read.keys() == keys.keys() else None

    def _queries(self, _where: str, value: Any) -> str | dict[str, str] | None:
        if isinstance(value, str):
            return value  # SQL has a `${...}` of its own
        # Several queries by name, each an output.
        if isinstance(value, dict) and all(isinstance(one, str) for one in value.values()):
            return dict(value)
        return None

    def _filled(self, where: str, text: str) -> str:
        for name in VARIABLE.findall(text):
            # Reported and replaced by nothing, so that the other checks still run.
            if name not in self._environment:
                self._problems.add(where, f"needs the environment variable {name}, which is not set")
        # A function, since a replacement text would interpret backslashes.
        return VARIABLE.sub(lambda match: self._environment.get(match[1], ""), text)
