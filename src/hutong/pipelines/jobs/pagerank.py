"""PageRank with Spark's RDD API, in the form of Spark's classic example.

    rank = 0.15 + 0.85 * sum(rank of each page that links here / its number of links)

Every page with links starts at 1.0. The join is an inner one: a page that nobody links to gets no contribution, so it
has no rank after the first iteration and passes nothing on in the next, and so do the pages that only it linked to, and
so on. That is how the example behaves; giving such pages 0.15 instead makes another ranking.

Repeated links count once; a page may link to itself. Order of the result: rank, highest first, then page by code point.
"""

from collections.abc import Iterable, Iterator
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from hutong.pipelines.errors import BadRecord
from hutong.pipelines.jobs.job import Job

if TYPE_CHECKING:
    from pyspark.rdd import RDD
    from pyspark.sql import DataFrame

JOB = Job(
    name="pagerank",
    kind="batch, RDD",
    summary="Ranks pages by the links between them, as in Spark's own example.",
    reads="one link per record: source, a tab, target",
    outputs=(
        ("ranks.csv", "page, rank; highest first, equal ones by page"),
        ("lineage.txt", "the lineage of the ranks, as Spark prints it"),
        ("stages.txt", "the stages that were run and what they read of each other"),
    ),
)
DAMPING = 0.85
BASE_RANK = 0.15
FIRST_RANK = 1.0
SHOWN_CHARACTERS = 80

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
    fields = records.selectExpr("decode(value, 'UTF-8')", "topic", "partition", "offset")
    return fields.rdd.map(lambda row: parse_link(*row))


def parse_link(text: str | None, topic: str, partition: int, offset: int) -> Link:
    """Raises BadRecord, which names the record, when it is not source, tab, target."""
    source, _, target = (text or "").rstrip("\r\n").partition("\t")
    if not source or not target or "\t" in target:
        shown = (text or "")[:SHOWN_CHARACTERS]
        raise BadRecord(f"the record at offset {offset} of {topic}-{partition} is not source, tab, target: {shown!r}")
    return Link(source, target)


def page_rank(links: "RDD[Link]", iterations: int) -> "RDD[tuple[str, float]]":
    """Page and rank after `iterations`. Lazy: nothing runs until the result is asked for."""
    # One partitioning for all, so that each join finds both its sides where they are and only contributions travel.
    partition_count = links.context.defaultParallelism
    neighbours = links.distinct(partition_count).groupByKey(partition_count).cache()
    ranks = neighbours.mapValues(lambda _: FIRST_RANK)
    for _ in range(iterations):
        contributions = neighbours.join(ranks, partition_count).flatMap(lambda page: contributions_of(*page[1]))
        ranks = contributions.reduceByKey(add, partition_count).mapValues(lambda total: BASE_RANK + DAMPING * total)
    return ranks


def contributions_of(targets: Iterable[str], rank: float) -> Iterator[tuple[str, float]]:
    """What a page of this rank gives to each page it links to."""
    pages = list(targets)
    for page in pages:
        yield page, rank / len(pages)


def ranking(ranks: "RDD[Any]") -> list[Rank]:
    """Runs the job and brings the ranks to the driver, in the order of the result."""
    return sorted((Rank(page, rank) for page, rank in ranks.collect()), key=lambda row: (-row.rank, row.page))
