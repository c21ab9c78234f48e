"""Splits chunks of bytes into lines, none longer than a bound, and detects the compression of an event log.

Strategy: a chunk at a time, so that a log of gigabytes needs the memory of a line. A line that is too long is counted
and skipped. A last line without an end is returned and marked, as the writer may have been killed.

Knows nothing of the lines' contents.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.report.collect.spark_lz4 import lz4_blocks

if TYPE_CHECKING:
    from typing import BinaryIO

CHUNK_BYTES = 2**18
LINE_BYTES_MAX = 32 * 2**20
"""A plan of a query may take megabytes; more is no event that a page needs."""
PACKINGS = {".zstd": "zstd", ".zst": "zstd", ".gz": "gzip"}


@dataclass(slots=True)
class Reading:
    """Findings while lines were read."""

    line_count: int = 0
    long_line_count: int = 0
    cut_off: bool = False
    """The last line, or what packed it, has no end."""


def lines_of_chunks(chunks: Iterable[bytes], reading: Reading) -> Iterator[bytes]:
    """Lines without their ends, the last one with or without."""
    rest = bytearray()
    passing_over = False
    for chunk in chunks:
        pieces = chunk.split(b"\n")
        for index, piece in enumerate(pieces):
            if not passing_over:
                rest += piece
            # The rest of the line is skipped up to its end, so memory stays bounded.
            if len(rest) > LINE_BYTES_MAX:
                passing_over, rest = True, bytearray()
                reading.long_line_count += 1
            if index < len(pieces) - 1:
                if not passing_over:
                    reading.line_count += 1
                    yield bytes(rest)
                passing_over, rest = False, bytearray()
    # No line break at the end: the writer was killed, or still writes.
    if rest:
        reading.cut_off = True
        yield bytes(rest)


def lines_of_file(path: Path, reading: Reading) -> Iterator[bytes]:
    """Raises UsageError when the file cannot be read, or is packed in a way that is not known."""
    try:
        with path.open("rb") as file:
            yield from lines_of_chunks(_chunks(path, file, reading), reading)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", ExitCode.NOINPUT) from error


def _chunks(path: Path, file: "BinaryIO", reading: Reading) -> Iterator[bytes]:
    """Plain bytes. What ends in the middle of a packed block ends there."""
    suffix = next((suffix for suffix in reversed(path.suffixes) if suffix != ".inprogress"), "")
    if suffix in PACKINGS:
        yield from _unpacked(file, PACKINGS[suffix], reading)
    elif suffix == ".lz4":
        try:
            yield from lz4_blocks(file)
        except ValueError:
            reading.cut_off = True
    elif suffix in {".snappy", ".lzf"}:
        raise UsageError(
            f"{path.name} is packed with {suffix[1:]}, which is not read: "
            "run with spark.eventLog.compression.codec=zstd, or unpack it first",
            ExitCode.DATAERR,
        )
    else:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _unpacked(file: "BinaryIO", packing: str, reading: Reading) -> Iterator[bytes]:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise UsageError(
            "a packed event log needs Arrow to be read: install hutong[spark]", ExitCode.UNAVAILABLE
        ) from error
    stream: Any = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), packing)
    while True:
        try:
            chunk = stream.read(CHUNK_BYTES)
        except OSError:  # the end is missing, or the data has another compression
            reading.cut_off = True
            return
        if not chunk:
            return
        yield chunk
