"""Problems of a pipeline that its declaration alone shows: no broker is contacted and no Spark started.

Each check collects problems and continues, so that a user sees all of them at once.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.check.options import KAFKA_PREFIX, is_streaming, reader_options, writer_options
from hutong.pipelines.declared.declare.definition import (
    AT_LEAST_ONCE,
    AVAILABLE_NOW,
    BATCH,
    CONSOLE,
    DELTA,
    EXACTLY_ONCE,
    NAME,
    OUTPUT_MODES,
    SINK_FORMATS,
    SINK_KINDS,
    SOURCE_FORMATS,
    SOURCE_KINDS,
    TOPIC,
    Pipeline,
    Sink,
    Source,
    Transform,
)
from hutong.pipelines.declared.declare.problems import Problems, suggestion
from hutong.pipelines.declared.declare.reading import read_pipeline
from hutong.pipelines.jobs import JOBS
from hutong.pipelines.jobs.job import Job
from hutong.pipelines.schemas.settings import OPTIONS as REGISTRY_OPTIONS
from hutong.pipelines.schemas.settings import URL, registry_of
from hutong.pipelines.sink.options import sink_options
from hutong.pipelines.sink.registered import formats_of
from hutong.pipelines.source.option_names import READING_OPTIONS
from hutong.pipelines.source.options import schema_of, source_options
from hutong.pipelines.source.registered_schemas import not_looked_up

SINK_NAME_LENGTH_MAX = 100
VIEW_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
INTERVAL = re.compile(r"\s*[0-9]+\s+(millisecond|second|minute|hour|day|week)s?\s*")
WRITING_OPTIONS = (
    "topic",
    "delivery",
    "includeHeaders",
    "checkpointLocation",
    "queryName",
    *REGISTRY_OPTIONS,
    "keyFormat",
    "keySchema",
    "keySubject",
    "valueFormat",
    "valueSchema",
    "valueSubject",
    "keyMessage",
    "valueMessage",
)
STRATEGIES = ("subscribe", "subscribePattern", "assign")


def check(pipeline: Pipeline, problems: Problems) -> None:
    """Note everything that keeps the pipeline from running, or will surprise its owner."""
    _check_head(pipeline, problems)
    _check_transform(pipeline, problems)
    if not pipeline.sources and not runs_by_itself(pipeline.transform):
        problems.add("sources", "there is none: add [sources.NAME] with a topic")
    for name, source in pipeline.sources.items():
        _check_source(pipeline, name, source, problems)
    if not pipeline.sinks and not runs_by_itself(pipeline.transform):
        problems.add("sinks", 'there is none: add [sinks.NAME] with kind = "topic", "parquet", "delta" or "console"')
    for name, sink in pipeline.sinks.items():
        _check_sink(pipeline, name, sink, problems)
    _check_outputs(pipeline, problems)


def read_and_check(file: Path) -> tuple[Pipeline, Problems]:
    """A pipeline from a file, with the problems that its declaration alone shows. Raises UsageError."""
    pipeline, problems = read_pipeline(file)
    check(pipeline, problems)
    return pipeline, problems


def job_of(transform: Transform) -> Job | None:
    """The job of the library that a transform names, if there is such a one for declared pipelines."""
    job = JOBS.get(transform.job or "")
    return job if job is not None and job.template is not None else None


def runs_by_itself(transform: Transform) -> bool:
    """Return True if the transform is a job that reads and writes itself."""
    job = job_of(transform)
    return job is not None and hasattr(import_module(job.module_name), "run")


def _check_head(pipeline: Pipeline, problems: Problems) -> None:
    is_reported = any(problem.where == "pipeline.name" for problem in problems.found)  # that there is none
    if not is_reported and not NAME.fullmatch(pipeline.name):
        problems.add("pipeline.name", f"is '{pipeline.name}': take small letters, digits and dashes, at most 100")
    # Spark refuses months and years here as well: their length varies.
    if pipeline.is_endless and not INTERVAL.fullmatch(pipeline.trigger):
        problems.add(
            "pipeline.trigger",
            f'is \'{pipeline.trigger}\': write an interval such as "10 seconds", or "{AVAILABLE_NOW}" or "{BATCH}"',
        )
    if pipeline.restarts < 0:
        problems.add("pipeline.restarts", f"is {pipeline.restarts}: it must be a whole number from 0")


def _check_transform(pipeline: Pipeline, problems: Problems) -> None:
    transform = pipeline.transform
    given = [name for name in ("sql", "function", "job") if getattr(transform, name) is not None]
    # One transform, because the three disagree on which outputs there are.
    if len(given) > 1:
        problems.add("transform", f"has {' and '.join(given)}: take one of them")
    # A single query and a table of queries are checked alike.
    queries = transform.sql if not isinstance(transform.sql, str) else {"": transform.sql}
    for name, query in (queries or {}).items():
        if not query.strip():
            problems.add(f"transform.sql{'.' if name else ''}{name}", "holds no query")
        if name in pipeline.sources:
            # Both would be temporary views of one name.
            problems.add(f"transform.sql.{name}", "has the name of a source: choose another")
    # A pipeline declared in Python holds the function itself, and Python has compiled it already.
    if isinstance(transform.function, str):
        _check_function(pipeline, transform.function, problems)
    if transform.job is not None:
        _check_job(transform, problems)
    # With one source its rows pass unchanged; with several the choice would be a guess.
    if not given and len(pipeline.sources) > 1:
        problems.add("transform", "is missing, and there are several sources: say what is made of them")


def _check_function(pipeline: Pipeline, reference: str, problems: Problems) -> None:
    where = "transform.function"
    # From the right, since a path on Windows has a colon as well.
    path, _, name = reference.rpartition(":")
    if not path.endswith(".py") or not name.isidentifier():
        problems.add(where, f"is '{reference}': write FILE.py:NAME")
        return
    file = pipeline.folder / path
    try:
        # Parsed, not imported: a check must not run the user's code.
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    except OSError:
        problems.add(where, f"names {path}, which is not there: it is looked for in {pipeline.folder.absolute()}")
        return
    except (SyntaxError, UnicodeDecodeError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        problems.add(where, f"names {path}, which is not Python{line}: {getattr(error, 'msg', error)}")
        return
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    bound = functions.keys() | _names_bound(tree)
    if name not in bound:
        problems.add(where, f"names {name}, which {path} does not define{suggestion(name, functions)}")
    # A name bound by import or assignment is trusted: its signature shows only at run time.
    elif name in functions and not _takes_two(functions[name]):
        problems.add(where, f"names {name}, which must take two things: the sources by name, and the parameters")


def _names_bound(tree: ast.Module) -> set[str]:
    """Names that a module gives to anything but a plain function: by import or assignment."""
    bound: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in node.names}
        # Plain names suffice: a function is rarely bound by unpacking.
        elif isinstance(node, ast.Assign):
            bound |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return bound


def _takes_two(function: ast.FunctionDef) -> bool:
    arguments = function.args
    positional = len(arguments.posonlyargs) + len(arguments.args)
    required = positional - len(arguments.defaults)
    needs_keywords = any(default is None for default in arguments.kw_defaults)
    # The runner passes exactly two positional arguments.
    return required <= 2 and (positional >= 2 or arguments.vararg is not None) and not needs_keywords


def _check_job(transform: Transform, problems: Problems) -> None:
    job = job_of(transform)
    if job is None:
        known = [job.name for job in JOBS.values() if job.template is not None]
        problems.add(
            "transform.job", f"is '{transform.job}', which is not in the library{suggestion(str(transform.job), known)}"
        )
        return
    parameters = {parameter.name: parameter for parameter in job.parameters}
    for name in transform.parameters:
        if name not in parameters:
            what = f"is no parameter of {job.name}{suggestion(name, parameters)}"
            problems.add(f"transform.parameters.{name}", what)
    for parameter in parameters.values():
        # A default of None means required (see `Parameter`).
        if parameter.default is None and parameter.name not in transform.parameters:
            problems.add(f"transform.parameters.{parameter.name}", f"is missing: {parameter.help}")


def _check_source(pipeline: Pipeline, name: str, source: Source, problems: Problems) -> None:
    where = f"sources.{name}"
    if not VIEW_NAME.fullmatch(name):
        problems.add(where, "cannot name a view for SQL: take letters, digits and underscores")
    # Without a known kind no other key can be judged.
    if not _is_one_of(f"{where}.kind", source.kind, SOURCE_KINDS, problems):
        return
    if source.watermark is not None and not INTERVAL.fullmatch(source.watermark.delay):
        problems.add(
            f"{where}.watermark.delay", f"is '{source.watermark.delay}': write an interval such as \"10 minutes\""
        )
    if source.kind != TOPIC:
        _check_files(where, source.path, source.kind, problems)
        # Keys of another kind would be ignored silently, so they are refused.
        _refuse(where, source, ("topic", "topics", "pattern", "bootstrap", "key_schema", "value_schema"), problems)
        return
    _refuse(where, source, ("path", "schema"), problems)
    chosen = [key for key in ("topic", "topics", "pattern") if getattr(source, key)]
    # Spark's own option names are accepted as well, so that existing jobs can be copied.
    chosen += [option for option in STRATEGIES if option in source.options]
    # Spark's own Kafka source refuses a second strategy, too.
    if len(chosen) != 1:
        reported = f"has {' and '.join(chosen)}: take one of them" if chosen else 'names no topic: add topic = "..."'
        problems.add(where, reported)
    noted = len(problems.found)
    for key, value in (("key_format", source.key_format), ("value_format", source.value_format)):
        _is_one_of(f"{where}.{key}", value, SOURCE_FORMATS, problems)
        schema_key = key.replace("format", "schema")
        # The other formats have a fixed type; a registry knows the schemas of these.
        is_registered = URL in source.options
        if (
            value in ("json", "avro", "protobuf")
            and not is_registered
            and getattr(source, schema_key) is None
            and schema_key not in source.options
        ):
            problems.add(f"{where}.{schema_key}", f'is missing: {key} = "{value}" needs to know the fields')
    is_clear = len(chosen) == 1 and len(problems.found) == noted
    # Spark passes unknown options on without a word, so a misspelt one would have no effect.
    _check_names(where, source.options, READING_OPTIONS, problems)
    # The readers would say the same once more.
    if not is_clear:
        return
    try:
        options = reader_options(pipeline, source)
        options |= not_looked_up(options)
        # The readers' own checks, so that both give the same sentences.
        source_options(options, streaming=is_streaming(pipeline, source))
        schema_of(options)
    except UsageError as error:
        problems.add(where, str(error))


def _check_sink(pipeline: Pipeline, name: str, sink: Sink, problems: Problems) -> None:
    where = f"sinks.{name}"
    # Dashes are fine in a folder's name; sinks are no views.
    if not VIEW_NAME.fullmatch(name.replace("-", "_")) or len(name) > SINK_NAME_LENGTH_MAX:  # its checkpoint's folder
        advice = f"take letters, digits, dashes and underscores, at most {SINK_NAME_LENGTH_MAX}"
        problems.add(where, f"cannot name a sink: {advice}")
    if not _is_one_of(f"{where}.kind", sink.kind, SINK_KINDS, problems):
        return
    _is_one_of(f"{where}.output_mode", sink.output_mode, OUTPUT_MODES, problems)
    _is_one_of(f"{where}.delivery", sink.delivery, (EXACTLY_ONCE, AT_LEAST_ONCE), problems)
    _is_one_of(f"{where}.value_format", sink.value_format, SINK_FORMATS, problems)
    if sink.kind == TOPIC:
        _refuse(where, sink, ("path", "partition_by"), problems)
        _check_names(where, sink.options, WRITING_OPTIONS, problems)
        # PySpark's Python data sources have no update mode (Spark 4).
        if sink.output_mode == "update" and pipeline.trigger != BATCH:
            advice = "Spark gives sinks written in Python none; take append, complete, or a sink of the kind console"
            problems.add(f"{where}.output_mode", f"is 'update', and a stream sends no updates to a topic: {advice}")
        try:
            options = writer_options(pipeline, sink)
            sink_options(options)
            formats_of(options)
            registry_of(options)
        except UsageError as error:
            problems.add(where, str(error))
        return
    _refuse(where, sink, ("topic", "bootstrap", "key"), problems)
    # The console keeps nothing, so there is no folder to check.
    if sink.kind == CONSOLE:
        _refuse(where, sink, ("path", "partition_by"), problems)
        return
    _check_files(where, sink.path, sink.kind, problems)
    # Spark's file sinks support append alone in streams.
    if sink.output_mode != "append" and pipeline.trigger != BATCH:
        problems.add(f"{where}.output_mode", f"is '{sink.output_mode}': a stream only appends to {sink.kind}")


def _check_outputs(pipeline: Pipeline, problems: Problems) -> None:
    """Sinks ask for frames that there are."""
    frames = frame_names(pipeline)
    for name, sink in pipeline.sinks.items():
        if sink.frame is not None and frames is not None and sink.frame not in frames:
            problems.add(
                f"sinks.{name}.from",
                f"is '{sink.frame}', which the transform does not give{suggestion(sink.frame, frames)}",
            )
        # One output goes to every sink; of several, a sink takes the one with its own name.
        elif sink.frame is None and frames is not None and len(frames) > 1 and name not in frames:
            problems.add(f"sinks.{name}.from", f"is missing: the transform gives {', '.join(frames)}")


def frame_names(pipeline: Pipeline) -> list[str] | None:
    """The names of what the transform gives, None where only a run shows them."""
    sql = pipeline.transform.sql
    if sql is not None and not isinstance(sql, str):
        return list(sql)
    return None


def _check_files(where: str, path: str | None, kind: str, problems: Problems) -> None:
    if path is None:
        problems.add(f"{where}.path", f'is missing: kind = "{kind}" needs a folder')
    # `find_spec` finds the package without importing it, and with it Spark.
    if kind == DELTA and not find_spec("delta"):
        problems.add(f"{where}.kind", "is delta, and the package delta-spark is not installed: install it first")


def _check_names(where: str, options: Mapping[str, str], known: tuple[str, ...], problems: Problems) -> None:
    """Note names of options that are like a known one, and mildly all others: a later version may know them."""
    folded = {name.lower() for name in known}
    for name in options:
        # Under `kafka.` any setting of Kafka's clients is allowed; most of them mean nothing here.
        if name.lower() in folded or name.lower().startswith(KAFKA_PREFIX):
            continue
        near = suggestion(name, known)
        if near.startswith("; did you mean"):
            problems.add(f"{where}.options.{name}", f"is no option of a topic{near}")
        else:
            problems.add(f"{where}.options.{name}", "is no option of a topic: it has no effect", mild=True)


def _refuse(where: str, table: Source | Sink, keys: Iterable[str], problems: Problems) -> None:
    for key in keys:
        if getattr(table, key):
            problems.add(f"{where}.{key}", f'does not belong to kind = "{table.kind}"')


def _is_one_of(where: str, value: str, known: tuple[str, ...], problems: Problems) -> bool:
    if value not in known:
        problems.add(where, f"is '{value}'{suggestion(value, known)}")
    return value in known
