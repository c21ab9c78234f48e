"""Counts words, as a stream or of all there is.

A word is a run of letters, marks and digits of any script, in lower case. Text is the column `text`, or a part of it
when it is JSON (`json_path`). Bytes that are not UTF-8 count no words.

As a stream the result changes with every batch: write it with output mode "complete" to a topic, all counts keyed by
word at each batch, which is a table once it is compacted; or with "update" to the console, only what changed. To sinks
in Python, such as topics, Spark gives no updates.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hutong.pipelines.jobs.job import Job, JobParameter
from hutong.pipelines.jobs.parameters import need_columns, the_only, whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WORD = r"[\p{L}\p{M}\p{N}]+"
JOB = Job(
    name="word-count",
    kind="streaming or batch",
    summary="Counts how often each word occurs, in any script.",
    reads="text, or JSON that holds text",
    outputs=(("counts", "word, count; with a key and a value for topics: the word, and the count as text"),),
    parameters=(
        JobParameter("text", "value", "the column with the text"),
        JobParameter("json_path", "", "where the text is, when the column is JSON, such as $.comment"),
        JobParameter("letters_min", "1", "words of fewer letters are left out"),
    ),
    template="""\
@PIPELINE@
trigger = "10 seconds"

[sources.texts]
topic = "texts"

[transform]
job = "word-count"
parameters = { text = "value" }    # json_path = "$.comment" when the text is in JSON

[sinks.counts]
kind = "topic"
topic = "word-counts"              # a compacted topic keeps the last count of each word
output_mode = "complete"           # all counts at each batch; Spark gives a topic no updates
""",
)


def transform(frames: "Mapping[str, DataFrame]", parameters: Mapping[str, str]) -> "DataFrame":
    """Words and their counts. Raises UsageError."""
    from pyspark.sql import functions as f

    records = the_only(frames, JOB.name)
    column = parameters["text"]
    need_columns(records, (column,), JOB.name)
    text = f.try_validate_utf8(f.col(column).cast("string"))
    if parameters["json_path"]:
        text = f.get_json_object(text, parameters["json_path"])
    words = records.select(f.explode(f.regexp_extract_all(f.lower(text), f.lit(WORD), f.lit(0))).alias("word"))
    counts = words.where(f.length("word") >= whole_number(parameters, "letters_min", 1)).groupBy("word").count()
    return counts.select("word", "count", f.col("word").alias("key"), f.col("count").cast("string").alias("value"))
