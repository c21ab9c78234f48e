"""PageRank with DataFrames: the JVM does all of it, and it runs on Spark Connect too.

One row per page holds the pages it links to; a round is a join and a sum. The rows are kept partitioned by page, as the
ranks come out of the sum, so that contributions alone are shuffled.
"""

from typing import TYPE_CHECKING

from hutong.pipelines.jobs.pagerank.keeping import CachePolicy
from hutong.pipelines.jobs.pagerank.links import BASE_RANK, DAMPING, FIRST_RANK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CUT_EVERY = CachePolicy(checkpoint_every=5)


def page_rank(links: "DataFrame", iterations: int, keeping: CachePolicy = CUT_EVERY) -> "DataFrame":
    """`page` and `rank` after `iterations`, from rows of `source` and `target`."""
    from pyspark.sql import functions as f

    neighbours = keeping.kept_rows(links.groupBy("source").agg(f.collect_set("target").alias("targets")))
    ranks = neighbours.select(f.col("source").alias("page"), f.lit(FIRST_RANK).alias("rank"))
    for done in range(1, iterations + 1):
        given = neighbours.join(ranks, neighbours["source"] == ranks["page"]).select(
            f.explode("targets").alias("page"), (f.col("rank") / f.size("targets")).alias("given")
        )
        ranks = given.groupBy("page").agg((f.lit(BASE_RANK) + f.lit(DAMPING) * f.sum("given")).alias("rank"))
        if keeping.cuts(done, iterations):
            ranks = keeping.cut_rows(ranks)
    return ranks
