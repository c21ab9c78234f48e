"""Links, ranks and the formula's numbers, shared by all ways of ranking."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from hutong.pipelines.errors import BadRecord

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.rdd import RDD
    from pyspark.sql import DataFrame

DAMPING = 0.85
BASE_RANK = 0.15
FIRST_RANK = 1.0
SHOWN_CHARACTERS = 80
LINK_SCHEMA = "source string, target string"
PLACE = ("topic", "partition", "offset")

SAMPLE = ("a\tb", "a\tc", "b\tc", "c\ta", "d\tc", "d\td")
"""A graph to explain the job with."""


class Link(NamedTuple):
    source: str
    target: str


class Rank(NamedTuple):
    page: str
    rank: float


def links_of(records: "DataFrame") -> "RDD[Link]":
    """The links in records with the columns `value`, `topic`, `partition` and `offset`."""
    fields = records.selectExpr("decode(value, 'UTF-8')", *PLACE)
    return fields.rdd.map(lambda row: parse_link(*row))


def link_rows(records: "DataFrame") -> "DataFrame":
    """The same as a DataFrame of `source` and `target`, parsed many at a time."""
    return records.select("value", *PLACE).mapInArrow(parse_batches, LINK_SCHEMA)


def parse_link(text: str | None, topic: str, partition: int, offset: int) -> Link:
    """Raises BadRecord, which names the record, when it is not source, tab, target."""
    source, _, target = (text or "").rstrip("\r\n").partition("\t")
    if not source or not target or "\t" in target:
        shown = (text or "")[:SHOWN_CHARACTERS]
        raise BadRecord(f"the record at offset {offset} of {topic}-{partition} is not source, tab, target: {shown!r}")
    return Link(source, target)


def parse_batches(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Batches of records become batches of links. Raises BadRecord at the first record that is none."""
    for batch in batches:
        links = _parsed(batch)
        if links is None:
            _complain(batch)
        yield links


def _parsed(batch: "pa.RecordBatch") -> "pa.RecordBatch | None":
    """None where anything is amiss, for the slow way to find what it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        text = pc.utf8_rtrim(batch["value"].cast(pa.string()), "\r\n")
    except pa.ArrowInvalid:  # not UTF-8
        return None
    fields = pc.split_pattern(text, "\t")
    if text.null_count or not pc.all(pc.equal(pc.list_value_length(fields), 2), min_count=0).as_py():
        return None
    source, target = pc.list_element(fields, 0), pc.list_element(fields, 1)
    if pc.any(pc.or_(pc.equal(source, ""), pc.equal(target, "")), min_count=0).as_py():
        return None
    return pa.RecordBatch.from_arrays([source, target], ["source", "target"])


def _complain(batch: "pa.RecordBatch") -> NoReturn:
    for row in batch.to_pylist():
        value = row["value"]
        try:
            text = value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            text = repr(value)  # which has no tab
        parse_link(text, *(row[name] for name in PLACE))
    raise AssertionError("every record parses alone, but not all together")
