"""PageRank's three ways, against dictionaries: on a real graph of citations, and on small ones where pages drop out."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark import reference

from hutong.foundation.errors import UsageError
from hutong.pipelines.engine.failures import translate
from hutong.pipelines.jobs import pagerank

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GRAPH = Path(__file__).parents[2].parent / "shared" / "data" / "arxiv-hepth-edges.tsv.gz"
TOLERANCE = 1e-9

Fill = Callable[..., None]
Read = Callable[..., "DataFrame"]


def ranks(frame: "DataFrame", **parameters: str) -> dict[str, float]:
    rows = pagerank.transform({"links": frame}, parameters).collect()
    found = {row.page: row.rank for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.thorough
def test_blocks_and_frames_rank_a_real_graph_of_citations(read: Read, fill: Fill) -> None:
    """Tuples are left to the command that runs all ways."""
    if not GRAPH.exists():
        pytest.skip(f"../shared/data/{GRAPH.name} is not there")
    lines = gzip.decompress(GRAPH.read_bytes()).splitlines()
    fill(lines)
    links = [(source, target) for source, _, target in (line.decode().partition("\t") for line in lines)]
    expected = reference.page_rank(links, 10)
    assert ranks(read(), way="blocks") == pytest.approx(expected, rel=TOLERANCE)
    assert ranks(read(), way="frames", checkpoint_every="4") == pytest.approx(expected, rel=TOLERANCE)


def small_graph(seed: int) -> list[tuple[str, str]]:
    """With repeated links, links to oneself, and a chain that loses a page in each round."""
    chance = random.Random(seed)
    chain = [(f"c{number}", f"c{number + 1}") for number in range(4)]
    return chain + [(f"p{chance.randrange(8)}", f"p{chance.randrange(8)}") for _ in range(30)] + chain[:2]


KEEPINGS = [
    {"persist": "none"},
    {"persist": "memory", "checkpoint_every": "2"},
    {"persist": "disk", "checkpoint_every": "1", "checkpoint": "CHECKPOINTS"},
    {"checkpoint": "CHECKPOINTS", "checkpoint_every": "0"},
]


@pytest.mark.parametrize("way", pagerank.WAYS)
@pytest.mark.parametrize(
    "keeping", [KEEPINGS[2], *(pytest.param(one, marks=pytest.mark.thorough) for one in KEEPINGS if one != KEEPINGS[2])]
)
def test_every_way_loses_the_same_pages_however_links_and_ranks_are_kept(
    spark: "SparkSession", tmp_path: Path, way: str, keeping: dict[str, str]
) -> None:
    links = small_graph(len(keeping))
    frame = spark.createDataFrame(links, "source string, target string").repartition(3)
    expected = reference.page_rank(links, 3)
    assert "c0" not in expected
    told = {name: value.replace("CHECKPOINTS", str(tmp_path)) for name, value in keeping.items()}
    assert ranks(frame, way=way, iterations="3", **told) == pytest.approx(expected, rel=TOLERANCE)
    if "checkpoint" in keeping and (way == "blocks" or keeping["checkpoint_every"] != "0"):
        assert list(tmp_path.rglob("part-*"))


@pytest.mark.parametrize(
    "way", [way if way == "blocks" else pytest.param(way, marks=pytest.mark.thorough) for way in pagerank.WAYS]
)
def test_a_graph_without_links_has_no_ranks(spark: "SparkSession", way: str) -> None:
    frame = spark.createDataFrame([], "source string, target string")
    assert ranks(frame, way=way, iterations="2") == {}


def test_a_record_that_is_no_link_is_named(read: Read, fill: Fill, topic: str) -> None:
    from pyspark.errors import PySparkException

    fill([b"a\tb", b"b\ta", b"no link"], partition=1)
    with pytest.raises(PySparkException) as raised:
        ranks(read(), way="frames")
    told = f"the record at offset 2 of {topic}-1 is not source, tab, target: 'no link'"
    assert str(translate(raised.value)) == told


def test_a_stream_has_no_ranks(spark: "SparkSession") -> None:
    frame = spark.readStream.format("rate").load()
    with pytest.raises(UsageError, match="ranks are of a whole topic"):
        ranks(frame)
