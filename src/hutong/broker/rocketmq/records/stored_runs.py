"""Runs: some messages of one batch as consumers get them, back to back in one piece.

Strategy: a pull takes a run as it is, without a look at each message. It is made by a compiled pass where the
installation could build it (`_stored_run.c`), else `python_run` does the same in Python. Both end in front of a
record that is out of the ordinary; `next_run` makes a run of that one alone, by the decoder that knows all rules.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from hutong.broker.rocketmq.records.stored_forms import QueueOfForms, StoredForm, long_form, short_form
from hutong.foundation.compiled import compiled_module
from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.batch.records import BatchHeader
from hutong.wire.kafka.varint import read_varlong

CONTRACT: Final = 2
"""Number of the contract with the compiled pass: a change of arguments, results or rules counts one up in both."""

_PLACE: Final = "q"  # a number of 64 bits, as this machine has it


class StoredRun(NamedTuple):
    """Messages of a batch. Their `stored` forms follow each other; each has a place in the three columns.

    `position` and `walked` tell where the next run begins: behind how many bytes and records of the batch.
    """

    stored: bytes
    places: memoryview  # all offsets, then all ends in `stored`, then where the properties of each begin there
    position: int
    walked: int

    @property
    def offsets(self) -> memoryview:
        """The offsets of the messages."""
        return self.places[: len(self.places) // 3]

    @property
    def ends(self) -> memoryview:
        """The ends of the messages in `stored`."""
        count = len(self.places) // 3
        return self.places[count : 2 * count]

    def form(self, index: int) -> StoredForm:
        """One message."""
        places, count = self.places, len(self.places) // 3
        end = places[count + index]
        begin = places[count + index - 1] if index else 0
        text = self.stored[places[2 * count + index] : end].decode()
        return StoredForm(places[index], self.stored[begin:end], text)


class RunBounds(NamedTuple):
    """Bounds of a run: the offset of the first message, and how many messages and bytes are enough.

    A run that has too few bytes takes one more message.
    """

    from_offset: int
    messages_max: int
    bytes_max: int


RunOf = Callable[[bytes, BatchHeader, QueueOfForms, int, int, RunBounds], StoredRun]
"""Of unpacked records, their header and queue, a position and how many records are left from there."""


def python_run(
    data: bytes, header: BatchHeader, queue: QueueOfForms, position: int, left: int, bounds: RunBounds
) -> StoredRun:
    """The messages from a position on; none where the first record is out of the ordinary, or broken."""
    forms: list[StoredForm] = []
    ends: list[int] = []
    walked = size = 0
    while walked < left and len(forms) < bounds.messages_max and size < bounds.bytes_max:
        # `long_form` says what is no record at all.
        try:
            end = _end_of_earlier(data, position, header, bounds.from_offset)
            form = None
            if end is None:
                form, end = short_form(data, position, header, queue)
                if form is None:
                    break
        except (IndexError, struct.error, ProtocolError):
            break
        position = end
        walked += 1
        if form is not None:
            size += len(form.stored)
            forms.append(form)
            ends.append(size)
    return _run_of(forms, ends, position, walked)


def _run_of(forms: list[StoredForm], ends: list[int], position: int, walked: int) -> StoredRun:
    count = len(forms)
    # Properties are the last part of a message.
    texts = [end - len(form.properties.encode()) for form, end in zip(forms, ends, strict=True)]
    places = struct.pack(f"={3 * count}q", *[form.offset for form in forms], *ends, *texts)
    return StoredRun(b"".join([form.stored for form in forms]), memoryview(places).cast(_PLACE), position, walked)


def _end_of_earlier(data: bytes, position: int, header: BatchHeader, from_offset: int) -> int | None:
    """The end of a record in front of the offset; None for any other. Raises IndexError, ProtocolError."""
    # Nearly always nothing is passed over.
    if from_offset <= header.base_offset:
        return None
    length, position = read_varlong(data, position)
    end = position + length
    _, position = read_varlong(data, position + 1)
    delta, position = read_varlong(data, position)
    is_earlier = position <= end <= len(data) and -(1 << 63) <= header.base_offset + delta < from_offset
    return end if is_earlier else None


def _compiled_run(
    data: bytes, header: BatchHeader, queue: QueueOfForms, position: int, left: int, bounds: RunBounds
) -> StoredRun:
    stored, places, position, walked = _compiled.stored_run(
        data,
        queue.topic_bytes,
        queue.host_bytes,
        position,
        left,
        header.base_offset,
        header.base_timestamp_ms,
        header.is_log_append_time,
        header.max_timestamp_ms,
        queue.queue_id,
        queue.physical_base,
        *bounds,
    )
    return StoredRun(stored, memoryview(places).cast(_PLACE), position, walked)


_compiled: Final[Any] = compiled_module("hutong.broker.rocketmq.records._stored_run", CONTRACT)
compiled_batches: Final[Callable[..., tuple[bytes, int, int, int, int, int]] | None] = (
    None if _compiled is None else _compiled.stored_batches
)
"""The pass through many batches, of which plain_batches.py has the use; None where nothing is compiled."""
stored_run: RunOf = python_run if _compiled is None else _compiled_run


def next_run(
    data: bytes, header: BatchHeader, queue: QueueOfForms, position: int, left: int, bounds: RunBounds
) -> StoredRun:
    """The messages from a position on: at least one record is walked over. Raises ProtocolError."""
    found = stored_run(data, header, queue, position, left, bounds)
    if found.walked:
        return found
    try:
        form, end = long_form(data, position, header, queue)
    # The last one: a time or an offset for which a message has no room.
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise ProtocolError(f"record: {error}") from error
    # It is as far from the ordinary as those behind the offset may be.
    if form.offset < bounds.from_offset:
        return _run_of([], [], end, 1)
    return _run_of([form], [len(form.stored)], end, 1)
