"""`hutong produce`: one record per line of standard input or of files.

Strategy: lines stay bytes; librdkafka batches them; each delivery report is counted, so the command ends well only when
every record was acknowledged. A full client queue is the back-pressure: it is polled until there is room.

Knows nothing of what the lines mean.
"""

import gzip
import os
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NoReturn, cast

import typer

from hutong.cli.nearest import did_you_mean
from hutong.cli.options import DEFAULT_BOOTSTRAP, AsDocument, Bootstrap, TopicName, assigned
from hutong.cli.output import print_json, progress, remark
from hutong.foundation.errors import ExitCode, UsageError

LINE_BYTES_MAX = 1_000_000  # librdkafka's message.max.bytes: a longer record would be refused by the client itself
FLUSH_TIMEOUT_SECONDS = 60.0
PROGRESS_EVERY_RECORDS = 1000

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


def produce(
    topic: TopicName,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Read lines from these; .gz is unpacked.")
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", metavar="TEXT", help="The text between key and value.")
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header of every record.")
    ] = None,
    acks: Annotated[
        Literal["0", "1", "all"], typer.Option(help="What the broker's acknowledgement waits for.")
    ] = "all",
    compression: Annotated[Compression, typer.Option(help="Codec of the batches.")] = "none",
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Partition; else by key.")] = None,
    linger_ms: Annotated[float, typer.Option(min=0, help="How long a batch waits for more records.")] = 5.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsDocument = False,
) -> None:
    """Send each line of FILEs, or of standard input, as one record."""
    from hutong.cli.kafka import client

    separator = key_separator.encode() if key_separator is not None else None
    for path in files or []:
        if path.is_dir() or not os.access(path, os.R_OK):
            raise UsageError(f"{path} is no file that you may read.", ExitCode.NOINPUT)
    sent_headers = [(name, value.encode()) for name, value in assigned("--header", headers)]
    shared = {"headers": sent_headers, **({} if partition is None else {"partition": partition})}
    settings = {"acks": acks, "compression_type": compression, "linger_ms": linger_ms}
    sending = Sending(client.producer(bootstrap, enable_idempotence=acks == "all", **settings), topic, shared)
    known = client.topics(sending.producer)
    # A misspelt topic is made by most brokers, and its records are missed elsewhere.
    if topic not in known:
        remark(f"There is no topic {topic} yet{did_you_mean(topic, known) or '.'} A broker may make it now.")
    started = time.perf_counter()
    with progress(f"to {topic}") as advance:
        for number, (key, value) in enumerate(_pairs(files, separator), 1):
            sending.send(key, value)
            # Drawing each record would cost more than sending it.
            if number % PROGRESS_EVERY_RECORDS == 0:
                advance(PROGRESS_EVERY_RECORDS)
        sending.finish()
    _report(sending, topic, time.perf_counter() - started, as_json=as_json)


@dataclass(slots=True)
class Sending:
    """A producer and the count of what was sent and acknowledged."""

    producer: Any
    topic: str
    shared: dict[str, Any]
    sent: int = 0
    bytes_sent: int = 0
    acknowledged: int = 0
    first_error: Any = None

    def send(self, key: bytes | None, value: bytes) -> None:
        """Hand one record to the client, waiting for room in its queue. Raises UsageError at the first refusal."""
        from confluent_kafka import KafkaException

        while True:
            try:
                self.producer.produce(self.topic, value=value, key=key, on_delivery=self._delivered, **self.shared)
            # librdkafka's queue is full (queue.buffering.max.messages).
            except BufferError:
                self._wait_for_room()
                continue
            # The client knows the topic's partitions, and this one is not among them.
            except KafkaException as error:
                self.first_error = error.args[0]
                self._fail()
            break
        self.sent += 1
        self.bytes_sent += len(value) + len(key or b"")
        # Delivery reports are called back from `poll` alone.
        self.producer.poll(0)
        if self.first_error is not None:
            self._fail()

    def finish(self) -> None:
        """Wait for every acknowledgement. Raises UsageError when one is missing."""
        from hutong.cli.kafka import client

        for _ in range(int(FLUSH_TIMEOUT_SECONDS / client.CHECK_SECONDS)):
            unsent = self.producer.flush(client.CHECK_SECONDS)
            if not unsent:
                break
            client.check_access()
        if self.first_error is not None:
            self._fail()
        # With acks=0 a delivery report means sent; a missing report is an error in every mode.
        if unsent or self.acknowledged != self.sent:
            raise UsageError(
                f"Only {self.acknowledged} of {self.sent} records were acknowledged.", ExitCode.UNAVAILABLE
            )

    def _wait_for_room(self) -> None:
        from hutong.cli.kafka import client

        self.producer.poll(0.1)
        client.check_access()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        elif self.first_error is None:
            self.first_error = error

    def _fail(self) -> NoReturn:
        from hutong.cli.kafka import client

        cause = client.failure(self.first_error, f"topic {self.topic}")
        raise UsageError(f"{cause} {self.acknowledged} of {self.sent} records were acknowledged.", cause.exit_code)


def _pairs(files: list[Path] | None, separator: bytes | None) -> Iterator[tuple[bytes | None, bytes]]:
    for source, lines in _sources(files):
        for number, line in enumerate(lines, 1):
            if separator is None:
                yield None, line
                continue
            key, found, value = line.partition(separator)
            # A line without the separator has no key, and to guess one would change its partition.
            if not found:
                raise UsageError(
                    f"Line {number} of {source} has no key separator {separator.decode()!r}.", ExitCode.DATAERR
                )
            yield key, value


def file_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked where its name ends in `.gz`. Raises UsageError for one too long or cut off."""
    for _, lines in _sources([path]):
        yield from lines


def _sources(files: list[Path] | None) -> Iterator[tuple[str, Iterator[bytes]]]:
    if not files:
        yield "standard input", _lines(sys.stdin.buffer, "standard input")
    for path in files or []:
        with path.open("rb") as plain:
            stream = cast("IO[bytes]", gzip.GzipFile(fileobj=plain)) if path.suffix == ".gz" else plain
            yield str(path), _lines(stream, str(path))


def _lines(stream: IO[bytes], source: str) -> Iterator[bytes]:
    number = 0
    try:
        while line := stream.readline(LINE_BYTES_MAX + 1):
            number += 1
            # `readline` returns a part of a longer line, which would be sent as a record of its own.
            if len(line) > LINE_BYTES_MAX:
                raise UsageError(f"Line {number} of {source} is longer than {LINE_BYTES_MAX} bytes.", ExitCode.DATAERR)
            yield line.removesuffix(b"\n")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"{source} is not a whole gzip file: {error}.", ExitCode.DATAERR) from None


def _report(sending: Sending, topic: str, seconds: float, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "topic": topic,
                "records": sending.acknowledged,
                "bytes": sending.bytes_sent,
                "seconds": round(seconds, 6),
            }
        )
        return
    rate = sending.acknowledged / seconds if seconds else 0.0
    size = f"{sending.acknowledged:,} records ({sending.bytes_sent:,} bytes)"
    remark(f"{size} to {topic} in {seconds:.2f} s, {rate:,.0f}/s.")
