"""PageRank three ways, in the form of Spark's classic example: the same ranks, at very different cost.

    rank = 0.15 + 0.85 * sum(rank of each page that links here / its number of links)

Every page with links starts at 1.0. The join is an inner one: a page without incoming links gets no contribution. So it
has no rank after the first iteration and contributes nothing to the next; then the same holds for pages that only it
linked to, and so on. That is how the example behaves; giving such pages 0.15 instead makes another ranking.

Repeated links count once; a page may link to itself. Order of the result: rank, highest first, then page by code point.

`tuples` is the classic example, `blocks` computes with NumPy, `frames` with DataFrames. This file chooses.
"""

from typing import TYPE_CHECKING

from hutong.foundation.errors import UsageError
from hutong.pipelines.jobs.events import SOURCE, Frames, Parameters, choice, only_frame
from hutong.pipelines.jobs.job import Job, JobParameter
from hutong.pipelines.jobs.pagerank.keeping import LEVELS, CachePolicy
from hutong.pipelines.jobs.pagerank.links import Link, link_rows
from hutong.pipelines.jobs.pagerank.tuples import page_rank
from hutong.pipelines.jobs.parameters import whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WAYS = ("blocks", "tuples", "frames")
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
    parameters=(
        SOURCE,
        JobParameter("way", WAYS[0], f"how to compute: {', '.join(WAYS)}; all give the same ranks"),
        JobParameter("iterations", "10", "how often ranks are passed on"),
        JobParameter("persist", LEVELS[0], f"where links are kept between iterations: {', '.join(LEVELS)}"),
        JobParameter(
            "checkpoint", "", "a folder for checkpoints that all workers see; without, they lie on the workers"
        ),
        JobParameter("checkpoint_every", "5", "after how many iterations the ranks are checkpointed; 0 never"),
    ),
    template="""\
# Ranks pages by their links: one link per record, as source, a tab, target.

@PIPELINE@
trigger = "batch"

[sources.links]
topic = "links"

[transform]
job = "pagerank"

[transform.parameters]
iterations = "10"

[sinks.ranks]
kind = "parquet"
path = "@NAME@-ranks"
""",
)


def transform(frames: Frames, parameters: Parameters) -> "DataFrame":
    """Columns: `page` and `rank`. The source holds links: records of source, tab, target, or columns of those names."""
    given = JOB.with_defaults(parameters)
    records = only_frame(frames, given)
    if records.isStreaming:
        raise UsageError('ranks are of a whole topic, not of a stream: set trigger = "batch"')
    links = records.select("source", "target") if {"source", "target"} <= set(records.columns) else link_rows(records)
    folder = given["checkpoint"].strip()
    keeping = CachePolicy(
        choice(given, "persist", LEVELS), whole_number(given, "checkpoint_every"), reliable=bool(folder)
    )
    if folder:
        links.sparkSession.sparkContext.setCheckpointDir(folder)
    iterations = whole_number(given, "iterations", least=1)
    return ranks_of(links, choice(given, "way", WAYS), iterations, keeping)


def ranks_of(links: "DataFrame", way: str, iterations: int, keeping: CachePolicy) -> "DataFrame":
    """`page` and `rank` from rows of `source` and `target`, by one of `WAYS`."""
    from hutong.pipelines.jobs.pagerank import blocks, frames

    if way == "frames":
        return frames.page_rank(links, iterations, keeping)
    if way == "blocks":
        return blocks.page_rank(links, iterations, keeping)
    ranks = page_rank(links.rdd.map(lambda row: Link(*row)), iterations, keeping)
    return links.sparkSession.createDataFrame(ranks, "page string, rank double")
