"""PageRank with an RDD of NumPy blocks: a round is a product of a matrix with a vector that every worker gets.

Pages become numbers. A block holds all links to a range of pages. The driver broadcasts the contribution of each page
to each page it links to, and gets the sums of each range back. So a round is one stage without a shuffle, and transfers
two numbers a page instead of one object a link. Pages, their names included, must fit into the memory of the driver and
of each worker; links need not.

Zero means no rank: every rank is at least 0.15, so a page whose sum is zero got nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from hutong.pipelines.jobs.pagerank.keeping import CachePolicy
from hutong.pipelines.jobs.pagerank.links import BASE_RANK, DAMPING, FIRST_RANK

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.broadcast import Broadcast
    from pyspark.rdd import RDD
    from pyspark.sql import DataFrame

PIECE_LINKS_MAX = 1 << 22
"""Links in one piece of the input: 32 MiB of numbers."""
BLOCK_LINKS_MAX = 1 << 24
"""Links that a block is meant to hold at most."""
PIECE_SCHEMA = "names binary, links binary"
KEPT = CachePolicy()

Numbers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Block:
    """The links to the pages from `first` on: `sources[i]` links to page `first + targets[i]`, each link once."""

    first: int
    size: int
    sources: Numbers
    targets: Numbers

    def received(self, shares: Floats) -> tuple[int, Floats]:
        """Return the sums of the block's pages, if page number p gives `shares[p]` to each page it links to."""
        sums = np.bincount(self.targets, shares[self.sources], self.size)
        return self.first, sums.astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Pages 0 to `page_count` - 1, in `count` ranges of almost the same size."""

    page_count: int
    count: int

    def first(self, index: int) -> int:
        return -(-index * self.page_count // self.count)  # the least page that `of` puts into the range

    def of(self, pages: Numbers) -> npt.NDArray[np.int64]:
        return pages.astype(np.int64) * self.count // self.page_count


def page_rank(links: "DataFrame", iterations: int, keeping: CachePolicy = KEPT) -> "DataFrame":
    """`page` and `rank` after `iterations`, from rows of `source` and `target`. Runs at once."""
    import pyarrow as pa

    session = links.sparkSession
    context = session.sparkContext
    # Cached regardless of `keeping`: the input is read for the names and again for the links.
    pieces = CachePolicy().kept_rdd(links.mapInArrow(_pieces, PIECE_SCHEMA).rdd.map(tuple))
    names, link_count = _names(pieces)
    ranks = np.zeros(0)
    if len(names):
        ranges = Ranges(len(names), max(context.defaultParallelism, -(-link_count // BLOCK_LINKS_MAX)))
        blocks = keeping.kept_rdd(_blocks(pieces, context.broadcast(names), ranges))
        if keeping.reliable:
            keeping.mark(blocks)
        ranks = _rounds(context, blocks, len(names), iterations)
        blocks.unpersist()
    pieces.unpersist()
    ranked = ranks > 0
    table = pa.table({"page": names.filter(pa.array(ranked)).cast(pa.string()), "rank": ranks[ranked]})
    return session.createDataFrame(table, "page string, rank double")


def next_ranks(received: Floats) -> Floats:
    """Ranks from sums of contributions."""
    return np.where(received > 0, BASE_RANK + DAMPING * received, 0.0)


def block_of(ranges: Ranges, index: int, parts: list[tuple[Numbers, Numbers]]) -> Block:
    """The links to one range, from parts that may repeat them."""
    sources = np.concatenate([part[0] for part in parts])
    targets = np.concatenate([part[1] for part in parts])
    links = np.unique(targets.astype(np.int64) << 32 | sources)
    first = ranges.first(index)
    return Block(
        first,
        ranges.first(index + 1) - first,
        (links & 0xFFFFFFFF).astype(np.int32),
        ((links >> 32) - first).astype(np.int32),
    )


def _rounds(context: "SparkContext", blocks: "RDD[Block]", page_count: int, iterations: int) -> Floats:
    degrees = blocks.map(lambda block: np.bincount(block.sources, minlength=page_count)).reduce(np.add)
    ranks = np.where(degrees > 0, FIRST_RANK, 0.0)
    for _ in range(iterations):
        shares = np.divide(ranks, degrees, out=np.zeros(page_count), where=degrees > 0)
        ranks = next_ranks(_received(context.broadcast(shares), blocks, page_count))
    return ranks


def _received(shares: "Broadcast[Floats]", blocks: "RDD[Block]", page_count: int) -> Floats:
    received = np.zeros(page_count)
    for first, sums in blocks.map(lambda block: block.received(shares.value)).collect():
        received[first : first + len(sums)] = sums
    shares.destroy()
    return received


def _pieces(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Some links each: the names in them once, and the links by their places among these."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= PIECE_LINKS_MAX:
            yield _piece(held)
            held = []
    if held:
        yield _piece(held)


def _piece(batches: "list[pa.RecordBatch]") -> "pa.RecordBatch":
    import pyarrow as pa

    columns = [batch[name].cast(pa.large_string()) for name in ("source", "target") for batch in batches]
    coded = pa.concat_arrays(columns).dictionary_encode()
    names = pa.RecordBatch.from_arrays([coded.dictionary], ["name"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, names.schema) as stream:
        stream.write_batch(names)
    numbers = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    values = [pa.array([value], pa.binary()) for value in (sink.getvalue().to_pybytes(), numbers.tobytes())]
    return pa.RecordBatch.from_arrays(values, ["names", "links"])


def _names(pieces: "RDD[Any]") -> "tuple[pa.LargeStringArray, int]":
    """All names once, which numbers the pages, and how many links there are."""
    import pyarrow as pa

    read = pieces.map(lambda piece: (bytes(piece[0]), len(piece[1]) // 8)).collect()
    names = pa.chunked_array([_read_names(packed) for packed, _ in read], pa.large_string()).unique()
    return names, sum(count for _, count in read)


def _read_names(packed: bytes) -> "pa.Array":
    import pyarrow as pa

    return pa.ipc.open_stream(packed).read_next_batch()["name"]


def _blocks(pieces: "RDD[Any]", names: "Broadcast[pa.Array]", ranges: Ranges) -> "RDD[Block]":
    def parts(piece: tuple[bytes, bytes]) -> Iterator[tuple[int, tuple[Numbers, Numbers]]]:
        import pyarrow.compute as pc

        pages = pc.index_in(_read_names(bytes(piece[0])), names.value).to_numpy(zero_copy_only=False).astype(np.int32)
        sources, targets = pages[np.frombuffer(piece[1], np.int32).reshape(2, -1)]
        index = ranges.of(targets)
        order = np.argsort(index, kind="stable")
        edges = np.searchsorted(index[order], np.arange(ranges.count + 1))
        for number, (begin, end) in enumerate(pairwise(edges)):
            chosen = order[begin:end]
            if len(chosen):
                yield number, (sources[chosen], targets[chosen])

    grouped = pieces.flatMap(parts).groupByKey(ranges.count, cast("Any", int))
    return grouped.map(lambda group: block_of(ranges, group[0], list(group[1])))
