"""A stream joined with a table: each event with the row of the table that it refers to.

The table is a source read whole for each micro-batch: files, or the latest value of each key of a topic. The set of
files is fixed when the query starts. So are the topic's offsets, unless its source has the option refresh: then an
event sees the table at the time of its batch. There is no state: an event that arrives before its row does not wait for
it. With `broadcast` the table is sent to every worker instead of sorting both sides by key: for tables that fit into
memory.
"""

from typing import TYPE_CHECKING

from hutong.foundation.errors import UsageError
from hutong.pipelines.jobs.events import Frames, Parameters, choice
from hutong.pipelines.jobs.job import Job, JobParameter
from hutong.pipelines.jobs.join import chosen, joined_sides
from hutong.pipelines.jobs.tables import is_log, latest_per_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = ("left", "inner", "semi", "anti")
KEPT = ("auto", "latest", "all")
JOB = Job(
    name="lookup",
    kind="streaming or batch, DataFrame",
    summary="Events joined with a table: a topic's latest value per key, or files.",
    reads="a source of events, and a source with static = true",
    outputs=(("result", "what the parameter select says, or all columns, each behind its source's name"),),
    parameters=(
        JobParameter("stream", None, "the source of events"),
        JobParameter("table", None, "the source of rows"),
        JobParameter("on", None, "when a row belongs to an event, in SQL: columns are named SOURCE.COLUMN"),
        JobParameter("kind", KINDS[0], f"what is given out: {', '.join(KINDS)}"),
        JobParameter("rows", KEPT[0], "latest: the latest of each key; all: as they are; auto: latest for a topic"),
        JobParameter("broadcast", "false", "true sends the table to every worker: for tables that fit into memory"),
        JobParameter("select", "", "the columns of the result: SQL expressions with commas"),
    ),
    template="""\
# Orders with the customer of each, as a compacted topic has it: the latest value of a key counts.

@PIPELINE@
trigger = "10 seconds"

[sources.orders]
topic = "orders"
value_format = "json"
value_schema = "id STRING, customer STRING, amount BIGINT"

[sources.customers]
topic = "customers"
static = true
options = { refresh = "true" }  # what the topic holds at each batch; without, what it held when the run started
key_format = "string"
value_format = "json"
value_schema = "name STRING, country STRING"

[transform]
job = "lookup"

[transform.parameters]
stream = "orders"
table = "customers"
on = "orders.value.customer = customers.key"
kind = "left"
select = "orders.value.id, orders.value.amount, customers.value.country"

[sinks.enriched]
kind = "parquet"
path = "@NAME@-enriched"
""",
)


def transform(frames: Frames, parameters: Parameters) -> "DataFrame":
    """The columns of `select`, or those of both sources, each behind its source's name."""
    from pyspark.sql import functions as f

    given = JOB.with_defaults(parameters)
    (stream, events), (table, rows), on = joined_sides(frames, given, "stream", "table")
    if rows.isStreaming:
        raise UsageError(f"the source {table} is a stream and can be no table: declare it with static = true")
    kind = choice(given, "kind", KINDS)
    rows = table_of(rows, choice(given, "rows", KEPT), table)
    if choice(given, "broadcast", ("false", "true")) == "true":
        rows = f.broadcast(rows)
    joined = events.alias(stream).join(rows.alias(table), f.expr(on), kind)
    return chosen(joined, given, {stream: events} if kind in ("semi", "anti") else {stream: events, table: rows})


def table_of(rows: "DataFrame", kept: str, name: str) -> "DataFrame":
    """Return the latest row of each key for a topic, all rows for other sources, unless configured otherwise."""
    if kept == "all" or (kept == "auto" and not is_log(rows)):
        return rows
    if not is_log(rows):
        raise UsageError(f"the source {name} has no latest rows, for it is no topic: leave out the parameter rows")
    return latest_per_key(rows)
