"""PageRank with Spark's RDD API on one tuple per page and link, in the form of Spark's classic example.

The shortest way to write it and the dearest to run: every contribution is a Python object that is pickled on its way.
"""

from collections.abc import Iterable, Iterator
from operator import add
from typing import TYPE_CHECKING, Any

from hutong.pipelines.jobs.pagerank.keeping import CachePolicy
from hutong.pipelines.jobs.pagerank.links import BASE_RANK, DAMPING, FIRST_RANK, Link, Rank

if TYPE_CHECKING:
    from pyspark.rdd import RDD

IN_MEMORY = CachePolicy("memory")


def page_rank(links: "RDD[Link]", iterations: int, keeping: CachePolicy = IN_MEMORY) -> "RDD[tuple[str, float]]":
    """Page and rank after `iterations`. Lazy: nothing runs until the result is asked for or a checkpoint is due."""
    # One partitioning for all, so that each join finds both its sides where they are and only contributions travel.
    partition_count = links.context.defaultParallelism
    neighbours = keeping.kept_rdd(links.distinct(partition_count).groupByKey(partition_count))
    ranks = neighbours.mapValues(lambda _: FIRST_RANK)
    for done in range(1, iterations + 1):
        contributions = neighbours.join(ranks, partition_count).flatMap(lambda page: contributions_of(*page[1]))
        ranks = contributions.reduceByKey(add, partition_count).mapValues(lambda total: BASE_RANK + DAMPING * total)
        if keeping.cuts(done, iterations):
            ranks = keeping.cut_rdd(ranks)
    return ranks


def contributions_of(targets: Iterable[str], rank: float) -> Iterator[tuple[str, float]]:
    """Yield the contribution of a page of this rank to each page it links to."""
    pages = list(targets)
    for page in pages:
        yield page, rank / len(pages)


def ranking(ranks: "RDD[Any]") -> list[Rank]:
    """Run the job and bring the ranks to the driver, in the order of the result."""
    return sorted((Rank(page, rank) for page, rank in ranks.collect()), key=lambda row: (-row.rank, row.page))
