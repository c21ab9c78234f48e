"""PageRank's ways next to each other: `python -m bench pagerank [--links N] [--iterations N] [--quick]`.

Strategy: one local session ranks the same made-up graph (pages are wanted unevenly, as in the world) by each way in
alternating turns, after a warm-up. Links lie in a Parquet file, so that no broker is measured; a turn is from the
file to all ranks in the driver. Ranks of all ways are compared before anything is printed. Time is the wall's,
processor time that of Spark with its Python workers, which hardly depends on what else the machine does.
"""

import argparse
import pathlib
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from bench.spark_jobs import Cost, Jobs, local_session
from bench.targets import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CONTENDERS: Final = {
    "tuples": ("tuples", {"persist": "memory", "checkpoint_every": "0"}),
    "tuples, kept nowhere": ("tuples", {"persist": "none", "checkpoint_every": "0"}),
    "tuples, checkpoints": ("tuples", {"persist": "memory", "checkpoint_every": "5"}),
    "frames": ("frames", {"checkpoint_every": "0"}),
    "frames, checkpoints": ("frames", {"checkpoint_every": "5"}),
    "blocks": ("blocks", {}),
    "blocks, kept on disk": ("blocks", {"persist": "disk"}),
}
USUAL: Final = ("tuples", "frames, checkpoints", "blocks")
SKEW: Final = 4
"""The unevenness of links: each goes to the page of number n * u ** SKEW, u being even between 0 and 1."""
TOLERANCE: Final = 1e-9


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench pagerank", description=__doc__)
    parser.add_argument("--links", type=int, default=1_000_000)
    parser.add_argument("--pages", type=int, help="default: a tenth of the links")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--turns", type=int, default=3, help="of each way, after a warm-up")
    parser.add_argument("--only", action="append", choices=list(CONTENDERS), help="may be repeated")
    parser.add_argument("--all", action="store_true", help=f"every way of keeping, not only {'; '.join(USUAL)}")
    parser.add_argument("--quick", action="store_true", help="a small graph, one turn")
    parser.add_argument("--memory", default="1g", help="of the Java machine")
    options = parser.parse_args(words)
    if options.quick:
        options.links, options.turns, options.iterations = min(options.links, 20_000), 1, 3
    options.pages = options.pages or max(options.links // 10, 1)
    return options


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    chosen = options.only or (list(CONTENDERS) if options.all else USUAL)
    costs: dict[str, list[Cost]] = {name: [] for name in chosen}
    with scratch_folder(None) as scratch, local_session(None, options.memory) as session:
        links = graph(session, pathlib.Path(scratch), options)
        jobs = Jobs(session, pathlib.Path(scratch), 0)
        expected: dict[str, float] = {}
        for turn in range(options.turns + 1):
            for name in chosen if turn % 2 else reversed(chosen):
                found: dict[str, float] = {}
                cost = jobs.timed(lambda name=name, found=found: found.update(ranks(links, name, options.iterations)))
                check(name, found, expected or found)
                expected = expected or found
                if turn:
                    costs[name].append(cost)
                session.catalog.clearCache()
    show(options, costs, len(expected))
    return 0


def graph(session: "SparkSession", scratch: pathlib.Path, options: argparse.Namespace) -> "DataFrame":
    """Links in a file; repeated ones are among them."""
    from pyspark.sql import functions as f

    def page(seed: int, skew: int) -> "Column":
        number = f.floor(f.pow(f.rand(seed), skew) * options.pages)
        return f.concat(f.lit("http://example.com/"), number)

    made = session.range(0, options.links, 1, 2).select(page(1, 1).alias("source"), page(2, SKEW).alias("target"))
    made.write.parquet(str(scratch / "links"))
    return session.read.parquet(str(scratch / "links"))


def ranks(links: "DataFrame", name: str, iterations: int) -> dict[str, float]:
    from hutong.pipelines.jobs import pagerank

    way, keeping = CONTENDERS[name]
    frame = pagerank.transform({"links": links}, {"way": way, "iterations": str(iterations), **keeping})
    table = frame.toArrow()
    return dict(zip(table["page"].to_pylist(), table["rank"].to_pylist(), strict=True))


def check(name: str, found: dict[str, float], expected: dict[str, float]) -> None:
    if found.keys() != expected.keys():
        raise RuntimeError(f"{name} ranks {len(found)} pages, another way {len(expected)}")
    worst = max((abs(rank / expected[page] - 1) for page, rank in found.items()), default=0.0)
    if worst > TOLERANCE:
        raise RuntimeError(f"{name} differs by {worst:.1e} from another way")


def show(options: argparse.Namespace, costs: dict[str, list[Cost]], page_count: int) -> None:
    medians = {
        name: (statistics.median(one.seconds for one in turns), statistics.median(one.cpu_seconds for one in turns))
        for name, turns in costs.items()
    }
    title = f"{options.links:,} links, {page_count:,} pages with a rank, {options.iterations} iterations, local[2]"
    table = Table("way", "time, s", "processor, s", "times the fastest", title=title)
    least = min(seconds for seconds, _ in medians.values())
    for name, (seconds, processor) in medians.items():
        table.add_row(name, f"{seconds:.2f}", f"{processor:.2f}", f"{seconds / least:.1f}")
    Console().print(table)
