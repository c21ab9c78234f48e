import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.engine.failures import first_cause, plain_errors, translate

IN_A_WORKER = """[PYTHON_DATA_SOURCE_ERROR] Failed to generate Python data source read partitions: Traceback:
  File "planning.py", line 40, in subscribed
    raise UsageError(f"topic ...")
hutong.foundation.errors.UsageError: topic nope does not exist: check the name, or create it first
 SQLSTATE: 38000"""

CHAINED = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
hutong.pipelines.errors.Unavailable: the broker at h:1 went away: reset

During handling of the above exception, another exception occurred:

hutong.pipelines.errors.DataLost: Some data may have been lost
\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Caused by: java.lang.IllegalStateException: unrelated"""

OF_SPARK = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.x(DAGScheduler.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.X(Unknown Source)"""


@pytest.mark.parametrize(
    ("text", "sentence", "exit_code"),
    [
        (IN_A_WORKER, "topic nope does not exist: check the name, or create it first", 64),
        (CHAINED, "Some data may have been lost", 65),
        ("hutong.pipelines.errors.Unavailable: the broker went away", "the broker went away", 69),
        (
            "[STREAM_FAILED] Failed when it performs latestOffset: hutong.pipelines.errors.DataLost: it is gone.\n SQL",
            "it is gone.",
            65,
        ),
        ("hutong.foundation.errors.Refused: records were not taken", "records were not taken", 76),
        (OF_SPARK, "Spark failed: No space left on device", 70),
        ("something else\nmore", "Spark failed: something else", 70),
        (
            "Job aborted: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat x",
            "Spark failed: Job aborted: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            69,
        ),
    ],
)
def test_the_sentence_worth_reading_is_found(text: str, sentence: str, exit_code: int) -> None:
    told = translate(RuntimeError(text))
    assert isinstance(told, UsageError)
    assert (str(told), told.exit_code) == (sentence, exit_code)


def test_a_block_ends_with_one_sentence_and_nothing_around_it() -> None:
    errors = pytest.importorskip("pyspark.errors")
    with pytest.raises(UsageError, match=r"^the broker went away$") as raised, plain_errors():
        raise errors.PySparkException("Job aborted: hutong.pipelines.errors.Unavailable: the broker went away\n\tat x")
    assert raised.value.__suppress_context__
    with pytest.raises(KeyError), plain_errors():
        raise KeyError("another's")


def test_a_cause_without_a_class_is_the_first_line() -> None:
    assert first_cause(RuntimeError("plain")) == "plain"
