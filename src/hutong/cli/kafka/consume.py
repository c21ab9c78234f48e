"""`hutong consume` and `hutong tail`: read a topic to the end, or follow it.

Strategy: without a group the partitions are assigned by hand from offsets looked up first, so that "everything there
is" is a fixed span and the command ends. With a group the broker assigns, and offsets are committed after the output
was written (at least once).

Knows nothing of how records were produced.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import typer

from hutong.cli.kafka.positions import PartitionRange, parse_position, resolve
from hutong.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, TopicName, group_name
from hutong.cli.output import print_json, printable, text_or_base64, utc
from hutong.foundation.errors import ExitCode, UsageError

POLL_SECONDS = 0.2
POLL_RECORDS = 1000
IDLE_POLLS_MAX = 150  # 30 s without a word, though there is more: librdkafka asks for ever for a batch it cannot read
WATERMARK_TIMEOUT_SECONDS = 5.0
TAIL_RECORDS_DEFAULT = 10

Write = Callable[[Any], None]
From = Annotated[
    str | None,
    typer.Option("--from", "-f", metavar="POSITION", help="beginning, end, an offset, -N for the last N, or a time."),
]
Maximum = Annotated[int | None, typer.Option("--max", "-n", min=1, help="End after so many records.")]
RecordJson = Annotated[bool, typer.Option("--json", help="Print each record as one JSON object a line.")]


def consume(
    topic: TopicName,
    start: From = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Only this partition.")] = None,
    maximum: Maximum = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more instead of ending.")] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", metavar="GROUP", parser=group_name, help="Join this group; commit what was printed."
        ),
    ] = None,
    key_separator: Annotated[str | None, typer.Option("--key-separator", "-k", help="Print KEY, this, VALUE.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: RecordJson = False,
) -> None:
    """Print a topic's records, from the beginning to what is its end now."""
    write = _json_writer(topic) if as_json else _raw_writer(key_separator)
    # Committed offsets decide where a group begins, and the broker which partitions a member reads.
    if group is not None:
        if start is not None or partition is not None:
            raise UsageError("A group decides what is read: leave out --from and --partition, or use `group reset`.")
        _copy(_group_records(bootstrap, topic, group, follow=follow, maximum=maximum), write)
        return
    records = read_records(bootstrap, topic, start or "beginning", partition, follow=follow, maximum=maximum)
    _copy(records, write)


def tail(
    topic: TopicName,
    start: From = None,
    maximum: Maximum = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: RecordJson = False,
) -> None:
    """Follow a topic: its last records, then new ones as they arrive (Ctrl-C ends it)."""
    write = _json_writer(topic) if as_json else _colour_writer()
    position = start or f"-{TAIL_RECORDS_DEFAULT}"
    _copy(read_records(bootstrap, topic, position, None, follow=True, maximum=maximum), write)


def read_records(
    bootstrap: str, topic: str, start: str, partition: int | None, *, follow: bool, maximum: int | None
) -> Iterator[list[Any]]:
    """Batches of messages of assigned partitions, until the ends seen at the start (or for ever)."""
    from confluent_kafka import TopicPartition

    from hutong.cli.kafka import client

    position = parse_position(start)
    admin = client.admin(bootstrap)
    wanted = [(topic, number) for number in client.partitions_of(admin, topic, partition)]
    spans = {at[1]: span for at, span in resolve(admin, wanted, position).items()}
    # Without --follow the ends at the start are the goal: records that arrive meanwhile must not keep it running.
    if follow:
        unfinished = None
    else:
        # An empty range is finished before it begins.
        unfinished = {number: span for number, span in spans.items() if span.start < span.high}
        spans = unfinished
    # librdkafka requires a group id even for assigned partitions; nothing is committed under it.
    consumer = client.consumer(bootstrap, group_id="hutong-cli", enable_auto_commit=False, enable_partition_eof=True)
    try:
        consumer.assign([TopicPartition(topic, number, span.start) for number, span in spans.items()])
        yield from _until_done(consumer, topic, None if unfinished is None else dict(unfinished), maximum)
    finally:
        consumer.close()


def _until_done(
    consumer: Any, topic: str, unfinished: dict[int, PartitionRange] | None, maximum: int | None
) -> Iterator[list[Any]]:
    remaining, idle_polls = maximum, 0
    # None follows the topic for ever.
    while unfinished is None or unfinished:
        kept = []
        messages = consumer.consume(POLL_RECORDS, POLL_SECONDS)
        idle_polls = 0 if messages else idle_polls + 1
        # librdkafka retries a malformed batch for ever, without an error.
        if unfinished and idle_polls >= IDLE_POLLS_MAX:
            idle_polls = 0
            _check_progress(consumer, topic, unfinished)
        for message in messages:
            number = message.partition()
            ended = _is_end(message, topic)
            if not ended and (unfinished is None or number in unfinished):
                kept.append(message)
            # The last offset may hold no record (a compacted or a control one): the end event counts too.
            if unfinished and number in unfinished and (ended or message.offset() + 1 >= unfinished[number].high):
                del unfinished[number]
        if remaining is not None:
            # A poll may bring more records than are wanted.
            kept = kept[:remaining]
            remaining -= len(kept)
        yield kept
        if remaining == 0:
            return


def _group_records(bootstrap: str, topic: str, group: str, *, follow: bool, maximum: int | None) -> Iterator[list[Any]]:
    """Batches of messages of a group member; an offset is stored once its batch was written."""
    from hutong.cli.kafka import client

    # Raises for an unknown topic: a group member would wait for it without a word.
    client.partitions_of(client.admin(bootstrap), topic)
    consumer = client.consumer(
        bootstrap,
        group_id=group,
        # librdkafka would store an offset when it hands a message out, before that is printed.
        enable_auto_offset_store=False,
        # A new group begins at the start, as reading without a group does.
        auto_offset_reset="earliest",
        enable_partition_eof=True,
    )
    try:
        consumer.subscribe([topic])
        yield from _until_ended(consumer, topic, follow=follow, maximum=maximum)
    finally:
        consumer.close()


def _until_ended(consumer: Any, topic: str, *, follow: bool, maximum: int | None) -> Iterator[list[Any]]:
    remaining, idle_polls = maximum, 0
    is_ended: dict[int, bool] = {}
    while True:
        # Not more than are wanted: a message that was fetched and not printed must not be stored.
        messages = consumer.consume(min(POLL_RECORDS, remaining or POLL_RECORDS), POLL_SECONDS)
        idle_polls = 0 if messages else idle_polls + 1
        if not follow and idle_polls >= IDLE_POLLS_MAX:
            idle_polls = 0
            assigned = [assignment.partition for assignment in consumer.assignment()]
            _check_progress(consumer, topic, [number for number in assigned if not is_ended.get(number)])
        for message in messages:  # in their order: the last event of a partition counts
            is_ended[message.partition()] = _is_end(message, topic)
        # The end of a partition arrives as a message with an error and no value.
        kept = [message for message in messages if message.error() is None]
        yield kept
        for message in kept:
            # After the yield: the batch is printed, so a crash repeats records instead of losing them.
            consumer.store_offsets(message)
        if remaining is not None:
            remaining -= len(kept)
        assigned = [assignment.partition for assignment in consumer.assignment()]
        # Before the first assignment there is nothing to be finished.
        if remaining == 0 or (not follow and assigned and all(is_ended.get(number) for number in assigned)):
            return


def _check_progress(consumer: Any, topic: str, numbers: Iterable[int]) -> None:
    """Raises UsageError for a partition that gives nothing although its end offset is further.

    Batches with a wrong header may have been stored by an earlier version, or by another broker.
    """
    from confluent_kafka import KafkaException, TopicPartition

    for number in numbers:
        at = TopicPartition(topic, number)
        try:
            _, high = consumer.get_watermark_offsets(at, timeout=WATERMARK_TIMEOUT_SECONDS)
        except KafkaException:  # the broker is away: that may pass
            return
        (reached,) = consumer.position([at])
        # Reading is stuck, not at the end.
        if reached.offset < high:
            where = f"offset {reached.offset}" if reached.offset >= 0 else "its first offset"
            raise UsageError(
                f"Partition {number} of {topic} cannot be read at {where}, though it ends at {high}: its next batch is "
                f"malformed. Go on after that batch with --partition {number} --from OFFSET.",
                ExitCode.DATAERR,
            )


def _is_end(message: Any, topic: str) -> bool:
    """True for the event "end of partition". Raises UsageError for any other error event."""
    from confluent_kafka import KafkaError

    from hutong.cli.kafka import client

    error = message.error()
    if error is None:
        return False
    # An event and no failure; `enable_partition_eof` asks for it.
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise client.failure(error, f"topic {topic}")


def _copy(batches: Iterator[list[Any]], write: Write) -> None:
    for batch in batches:
        for message in batch:
            write(message)
        # A reader of a pipe sees each batch as it comes; Python would keep whole blocks.
        sys.stdout.flush()


def _raw_writer(key_separator: str | None) -> Write:
    """Bytes as they are, for a file or a pipe; escaped where a terminal would obey them."""
    # Control sequences in records could change the terminal's state.
    if sys.stdout.isatty():
        return _escaped_writer(key_separator)
    output, separator = sys.stdout.buffer, key_separator.encode() if key_separator is not None else None

    def write(message: Any) -> None:
        # Without --key-separator keys are not printed, as in kafka-console-consumer.
        if separator is not None:
            output.write((message.key() or b"") + separator)
        output.write((message.value() or b"") + b"\n")

    return write


def _escaped_writer(key_separator: str | None) -> Write:
    def write(message: Any) -> None:
        key = "" if key_separator is None else _readable(message.key()) + key_separator
        sys.stdout.write(f"{key}{_readable(message.value())}\n")

    return write


def _json_writer(topic: str) -> Write:
    def write(message: Any) -> None:
        print_json(
            {
                "topic": topic,
                "partition": message.partition(),
                "offset": message.offset(),
                "timestamp_ms": message.timestamp()[1],
                "key": text_or_base64(message.key()),
                "value": text_or_base64(message.value()),
                "headers": [[name, text_or_base64(value)] for name, value in message.headers() or []],
            }
        )

    return write


def _colour_writer() -> Write:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)

    def write(message: Any) -> None:
        place = f"{message.partition()}:{message.offset()}"
        line = Text.assemble((utc(message.timestamp()[1]), "dim"), " ", (place, "cyan"), " ")
        if message.key() is not None:
            line.append(_readable(message.key()), "bold magenta").append(" ")
        for name, value in message.headers() or []:
            line.append(f"{printable(name)}={_readable(value)} ", "yellow")
        console.print(line.append(_readable(message.value())), soft_wrap=True)

    return write


def _readable(value: bytes | None) -> str:
    return "-" if value is None else printable(value.decode(errors="backslashreplace"))
