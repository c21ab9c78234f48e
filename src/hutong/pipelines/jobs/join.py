"""Two streams joined: pairs of events that match and are near in time.

An event of the right source matches one of the left when the condition `on` holds and its time is from `before`
earlier to `after` later. From those bounds and the watermarks Spark knows when an event can match no more, so that its
state stays bounded. Outer joins then emit unmatched events, with nulls for the other side. Columns are named after
their source where both sources have them or no `select` is given.
"""

from typing import TYPE_CHECKING

from hutong.foundation.errors import UsageError
from hutong.pipelines.jobs.events import (
    EVENT_TIME,
    TIMED,
    Frames,
    Parameters,
    choice,
    duration,
    named_frame,
    required,
    timed,
)
from hutong.pipelines.jobs.job import Job, JobParameter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = ("inner", "left", "right", "full", "semi")
SIDES = tuple(
    JobParameter(f"{side}_{one.name}", "", f"{one.name} of the {side} source alone")
    for side in ("left", "right")
    for one in TIMED
)
JOB = Job(
    name="join",
    kind="streaming or batch, DataFrame",
    summary="Two streams joined where events match and are near in time.",
    reads="two sources of events: any columns from which SQL makes a time",
    outputs=(("result", "what the parameter select says, or all columns, each behind its source's name"),),
    parameters=(
        JobParameter("left", None, "a source"),
        JobParameter("right", None, "another source"),
        JobParameter("on", None, "when two events match, in SQL: columns are named SOURCE.COLUMN"),
        JobParameter("kind", KINDS[0], f"what is given out: {', '.join(KINDS)}"),
        JobParameter("before", "0 seconds", "how much earlier than the left event the right one may be"),
        JobParameter("after", "10 minutes", "how much later than the left event the right one may be"),
        JobParameter("select", "", "the columns of the result: SQL expressions with commas"),
        *TIMED,
        *SIDES,
    ),
    template="""\
# Orders with their payments; an order that is not paid within an hour is emitted with nulls.

@PIPELINE@
trigger = "10 seconds"

[sources.orders]
topic = "orders"
value_format = "json"
value_schema = "id STRING, amount BIGINT"

[sources.payments]
topic = "payments"
value_format = "json"
value_schema = "order_id STRING, method STRING"

[transform]
job = "join"

[transform.parameters]
left = "orders"
right = "payments"
on = "orders.value.id = payments.value.order_id"
kind = "left"
after = "1 hour"
delay = "10 minutes"
select = "orders.value.id, orders.value.amount, payments.value.method"

[sinks.paid]
kind = "parquet"
path = "@NAME@-paid"
""",
)


def transform(frames: Frames, parameters: Parameters) -> "DataFrame":
    """The columns of `select`, or those of both sources, each behind its source's name."""
    from pyspark.sql import functions as f

    given = JOB.with_defaults(parameters)
    (left, left_frame), (right, right_frame), on = joined_sides(frames, given, "left", "right")
    kind = choice(given, "kind", KINDS)
    before, after = duration(given, "before"), duration(given, "after")
    near = (
        f"`{right}`.{EVENT_TIME} >= `{left}`.{EVENT_TIME} - INTERVAL {before}"
        f" AND `{right}`.{EVENT_TIME} <= `{left}`.{EVENT_TIME} + INTERVAL {after}"
    )
    events, others = _side(left_frame, given, "left"), _side(right_frame, given, "right")
    joined = events.alias(left).join(others.alias(right), f.expr(f"({on}) AND {near}"), kind)
    return chosen(joined, given, {left: left_frame} if kind == "semi" else {left: left_frame, right: right_frame})


def joined_sides(
    frames: Frames, parameters: Parameters, left: str, right: str
) -> tuple[tuple[str, "DataFrame"], tuple[str, "DataFrame"], str]:
    """The two sources that the parameters `left` and `right` name, and the condition `on`."""
    first, second = named_frame(frames, parameters, left), named_frame(frames, parameters, right)
    if first[0] == second[0]:
        raise UsageError(f"the parameters {left} and {right} are both {first[0]}: name two sources")
    return first, second, required(parameters, "on", f"a condition such as {first[0]}.key = {second[0]}.key")


def chosen(joined: "DataFrame", parameters: Parameters, sides: Frames) -> "DataFrame":
    """Select the columns that `select` names, or all of both sides, named after their source."""
    from pyspark.sql import functions as f

    select = parameters["select"].strip()
    if select:
        return joined.select(f.expr(f"struct({select})").alias("row")).select("row.*")
    return joined.select(
        *(
            f.col(f"`{name}`.`{column}`").alias(f"{name}_{column}")
            for name, side in sides.items()
            for column in side.columns
        )
    )


def _side(frame: "DataFrame", parameters: Parameters, side: str) -> "DataFrame":
    """A source with its times: `left_time` comes before `time`, and so on."""
    own = {one.name: parameters[f"{side}_{one.name}"] for one in TIMED}
    return timed(frame, {**parameters, **{name: value for name, value in own.items() if value.strip()}})
