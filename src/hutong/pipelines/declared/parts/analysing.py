"""Problems of a pipeline that Spark's analysis finds: columns, types, SQL, operations that streams do not support.

Nothing is read or written: the sources give their schemas, the transform is applied to them, and Spark resolves the
result as it would before starting a query.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from hutong.foundation.errors import UsageError
from hutong.pipelines.declared.check.checking import runs_by_itself
from hutong.pipelines.declared.declare.definition import Pipeline
from hutong.pipelines.declared.declare.problems import Problems
from hutong.pipelines.declared.parts.building import BuildError, frames_of, output_of, transformed
from hutong.pipelines.engine.failures import analysis_sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUIET_SETTINGS = {"spark.ui.enabled": "false"}
MASTER = "local[1]"


def analyse(session: "SparkSession", pipeline: Pipeline, problems: Problems) -> "dict[str, DataFrame]":
    """Note what Spark refuses; the outputs by sink as far as they could be built."""
    try:
        frames = frames_of(session, pipeline)
        if runs_by_itself(pipeline.transform):
            return {}
        outputs = transformed(session, pipeline, frames)
    except BuildError as error:
        problems.add(error.where, error.what)
        return {}
    ready = {}
    for name, sink in pipeline.sinks.items():
        try:
            ready[name] = output_of(name, sink, outputs)
            _check_streaming(session, ready[name], sink.output_mode)
        except BuildError as error:
            problems.add(error.where, error.what)
        except UsageError as error:
            problems.add(f"sinks.{name}", str(error))
    return ready


def _check_streaming(session: "SparkSession", frame: "DataFrame", output_mode: str) -> None:
    """Asks Spark what it asks itself when a query starts. No public way leads there; without one, no answer."""
    java = getattr(session, "_jvm", None)
    if java is None or not frame.isStreaming:
        return
    from pyspark.errors import PySparkException

    try:
        mode = getattr(java.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
        plan = frame._jdf.queryExecution().analyzed()
        java.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
    except PySparkException as error:
        raise UsageError(analysis_sentence(error)) from error
    except import_module("py4j.protocol").Py4JError:
        return
