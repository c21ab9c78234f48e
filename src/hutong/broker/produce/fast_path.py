"""The fast path of a producer that repeats itself: same client, same topic and partition, another batch.

Strategy: in such requests only the correlation id, the length of the batch and the batch itself differ; all other bytes
are the same. After a request was decoded by the dispatcher, its fast path remembers those bytes and their meaning.
Requests whose bytes match need no decoding, no look-up and no response objects. Those that arrive together are
appended and answered together. All bytes of a frame are accounted for, so a match means what the decoder would find.
A request that does not match, or would be refused, goes to the dispatcher, which alone knows how to refuse.
`bench latency` measures it: it counts 64 deep on one connection, where requests arrive together.

Knows Produce from version 9 with acknowledgement, one topic and one partition, and batches below 16 KiB: larger ones
have other costs. A change of any topic, or of the standing of any partition group, ends all fast paths, by the
catalogue's version, and so do a change of any ACL and the first quota of any client.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.kafka.k00_produce import ACKS_NONE, API_KEY, qos_for, timeout_for
from hutong.broker.produce.outcomes import put_outcome, why_unsafe
from hutong.broker.produce.record_checks import timestamp_bounds
from hutong.broker.rights.authorization import may
from hutong.foundation.errors import HutongError, ProtocolError, Refused, UsageError
from hutong.journal.append.producers import UNKNOWN_OFFSET
from hutong.reactor.connections.channel import PendingResponse
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k00_produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from hutong.wire.kafka.batch.record_contents import IS_COMPILED, LOOP_BYTES_MAX, examine_batch, greatest_timestamp
from hutong.wire.kafka.batch.records import COMPRESSION_MASK, HEADER_BYTES, validate_batch_set
from hutong.wire.kafka.headers import RequestHeader
from hutong.wire.kafka.produce_frame import encode_produce_response_frame, single_frame_encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.handling.context import RequestContext
    from hutong.broker.produce.parts import ProduceParts
    from hutong.broker.topics.partition import Partition
    from hutong.journal.append.log_appends import Appended
    from hutong.reactor.connections.handler import RequestBatch
    from hutong.wire.buffer import Buffer
    from hutong.wire.kafka.apis.k00_produce import ProduceRequest, TopicProduceData
    from hutong.wire.kafka.batch.records import BatchHeader

FLEXIBLE_FROM: Final = 9
_PREFIX: Final = struct.Struct(">i4si")  # frame size, API key and version, correlation id
_SIZE_BYTES: Final = 4
_AFTER_CORRELATION: Final = 8  # of a frame without its size
_TAGS: Final = b"\0\0\0"  # of the partition, the topic and the request
_ONE_BYTE_MAX: Final = 0x7F  # of a compact length
_TWO_BYTES_MAX: Final = 0x3FFF
_UNLIMITED_MS: Final = 2**63 - 1
_NOTHING_SOUND: Final = -(2**63) - 1  # no timestamp


def _greatest_of_few(data: Buffer, start: int, count: int, base_timestamp_ms: int) -> int:
    """Walk over few records in Python; more are left to the dispatcher, which has workers."""
    if count > _SLOW_RECORDS_MAX:
        raise ProtocolError(f"{count} records are too many to be walked here")
    return greatest_timestamp(data, start, count, base_timestamp_ms)


# Without the compiled walk few requests are taken together, so that they take no longer than a read pass may.
_greatest_timestamp: Final = greatest_timestamp if IS_COMPILED else _greatest_of_few
_TOGETHER_REQUESTS_MAX: Final = 1 << 16 if IS_COMPILED else 16
_SLOW_RECORDS_MAX: Final = 32


class _PendingAnswers(PendingResponse):
    """The answers to requests that were appended together and wait for the disk.

    One object in place of a closure and a response: both together cost each request 0.4 us more. For the same reason
    its attributes are set from outside, without an `__init__`.
    """

    __slots__ = ("appended", "batches", "began_us", "correlation_ids", "local_us", "path")

    path: ProduceFastPath
    correlation_ids: list[int]
    batches: list[tuple[memoryview, BatchHeader]]
    appended: Appended
    began_us: int
    local_us: int  # of the work before the wait

    def settle(self, error: HutongError | None) -> None:
        """Answer: the append is safe, or failed with `error`."""
        self.path._settle(self, error)


class ProduceFastPath:
    """The meaning of one connection's last Produce, and the bytes by which a repetition is recognized."""

    __slots__ = (
        "_address",
        "_api_version",
        "_broker",
        "_client_id",
        "_decisions",
        "_encode",
        "_latest_ms",
        "_length_at",
        "_middle",
        "_partition",
        "_qos",
        "_requests_total",
        "_rights_version",
        "_session",
        "_start",
        "_timeout_ms",
        "_times",
        "_topic",
        "_version",
    )

    def __init__(
        self,
        broker: ProduceParts,
        requests_total: dict[int, int],
        partition: Partition,
        topic: TopicProduceData,
        request: ProduceRequest,
        context: RequestContext[ProduceParts],
        frame: bytes,
        length_at: int,
        encode: Callable[[int, int, int, int], bytes],
    ) -> None:
        self._broker = broker
        self._requests_total = requests_total
        self._partition = partition
        self._topic = topic
        self._qos = qos_for(partition, request.acks)
        self._timeout_ms = timeout_for(request, broker.settings)
        self._api_version = context.api_version
        self._client_id = context.client_id
        self._session = context.session
        self._address = context.session.address
        self._times = broker.request_times.of(API_KEY)
        self._version = broker.topics.version
        self._decisions = broker.authorizer.decisions
        self._rights_version = self._decisions.version
        self._start = frame[: _AFTER_CORRELATION - 4]
        self._middle = frame[_AFTER_CORRELATION:length_at]
        self._length_at = _SIZE_BYTES + length_at
        self._encode = encode
        self._latest_ms = 0

    def take_requests(self, data: Buffer, requests_max: int) -> RequestBatch | None:
        """Handle the requests at the beginning of `data` that repeat the remembered one, together.

        Returns how many there were, how many bytes, and their answers; None if the first must go the dispatcher.
        """
        broker = self._broker
        # One comparison for all that may have changed: a deleted topic, a setting, a right, a quota, back-pressure.
        if broker.topics.version != self._version or broker.congestion.groups or broker.meter.is_on:
            return None
        # An ACL was changed since the right was checked (`rights/authorization.py`).
        if self._decisions.version != self._rights_version:
            return None
        began_us = broker.clock.monotonic_us()
        chunk = bytes(data)  # what is appended must not change, and `data` is only lent
        correlation_ids, batches, ends = self._repetitions(chunk, min(requests_max, _TOGETHER_REQUESTS_MAX))
        # The first request differs, or would be refused: the dispatcher decodes it and knows the answer.
        if not batches:
            return None
        log = self._partition.log
        appended = log.append(batches, self._qos)
        # The log has appended nothing of it, so the dispatcher may handle the first request again and refuse it.
        # The same for a repetition whose offset is unknown: its answer is an error code.
        if isinstance(appended, HutongError) or appended.base_offset == UNKNOWN_OFFSET:
            return None
        # A repetition (KIP-98) or a refusal ends the append before it. Those requests are handled by a later pass.
        taken = appended.batch_count
        del batches[taken:]
        self._requests_total[API_KEY] += taken
        if appended.is_safe:
            answers = self._answer(correlation_ids, batches, appended)
            self._spent(broker.clock.monotonic_us() - began_us, 0, taken)
            return taken, ends[taken - 1], answers
        pending = _PendingAnswers()
        pending.path, pending.appended = self, appended
        pending.correlation_ids, pending.batches = correlation_ids, batches
        pending.began_us, pending.local_us = began_us, broker.clock.monotonic_us() - began_us
        log.when_safe(self._qos, pending.settle, self._timeout_ms)
        return taken, ends[taken - 1], pending

    def _settle(self, pending: _PendingAnswers, error: HutongError | None) -> None:
        outcome = pending.appended if error is None else error
        batches, local_us = pending.batches, pending.local_us
        answers = self._answer(pending.correlation_ids, batches, outcome)
        self._spent(local_us, self._broker.clock.monotonic_us() - pending.began_us - local_us, len(batches))
        pending.complete(answers)

    def _spent(self, local_us: int, remote_us: int, requests: int) -> None:
        """Record the times of requests that were answered together."""
        self._times.record_together(local_us, remote_us, requests)
        times = self._broker.request_times
        if local_us + remote_us >= times.slow_us:
            stages_us = {"local": local_us, "remote": remote_us}
            now_us = self._broker.clock.monotonic_us()
            header = RequestHeader(API_KEY, self._api_version, 0, self._client_id)
            times.report_slow(header, self._session.principal, self._address, stages_us, now_us)

    def _greatest_timestamp_ms(self, header: BatchHeader, records: memoryview) -> int:
        """The greatest timestamp of sound packed records; what is none where the dispatcher must look at the batch.

        Raises ProtocolError where they are not sound.
        """
        # Transactional and control batches, and log-append time: the dispatcher has the rules for them.
        if header.attributes & ~COMPRESSION_MASK:
            return _NOTHING_SOUND
        try:
            contents = self._broker.examinations.try_packed(partial(examine_batch, header, records, LOOP_BYTES_MAX))
        # The codec is not installed; the dispatcher answers with the right code.
        except UsageError:
            return _NOTHING_SOUND
        return _NOTHING_SOUND if contents is None else contents.greatest_timestamp_ms

    def _is_not_late(self, timestamp_ms: int) -> bool:
        """The latest timestamp taken rises with time, so what was early enough once still is."""
        _, self._latest_ms = timestamp_bounds(self._partition.config, self._broker.clock.wall_ms())
        return timestamp_ms <= self._latest_ms

    def _answer(
        self, correlation_ids: list[int], batches: list[tuple[memoryview, BatchHeader]], outcome: Appended | HutongError
    ) -> list[Buffer]:
        """The answers to the requests whose batches were appended together, or not; the log may have left some out."""
        # The log appends as many as its segment or its bounds have room for; the others are read again.
        del correlation_ids[len(batches) :]
        if isinstance(outcome, HutongError):
            return [part for correlation_id in correlation_ids for part in self._refusal(correlation_id, outcome)]
        encode, offset, start_offset = self._encode, outcome.base_offset, outcome.start_offset
        # A client with one request in flight, as most have.
        if len(batches) == 1:
            return [encode(correlation_ids[0], offset, outcome.append_time_ms, start_offset)]
        frames = []
        for correlation_id, (_, header) in zip(correlation_ids, batches, strict=True):
            frames.append(encode(correlation_id, offset, outcome.append_time_ms, start_offset))
            offset += header.record_count
        return [b"".join(frames)]

    def _refusal(self, correlation_id: int, error: HutongError) -> list[Buffer]:
        result = PartitionProduceResponse(self._partition.index)
        put_outcome(result, why_unsafe(self._partition, error))
        self._broker.request_errors.note(API_KEY, {result.error_code})
        response = ProduceResponse([TopicProduceResponse(self._topic.name, self._topic.topic_id, [result])])
        return encode_produce_response_frame(self._api_version, correlation_id, response)

    def _repetitions(
        self, chunk: bytes, requests_max: int
    ) -> tuple[list[int], list[tuple[memoryview, BatchHeader]], list[int]]:
        """The correlation ids, the batches and the ends of the frames of all repetitions that may be appended."""
        correlation_ids: list[int] = []
        batches: list[tuple[memoryview, BatchHeader]] = []
        ends: list[int] = []
        view = memoryview(chunk)
        bytes_max = self._partition.config.max_message_bytes
        start, middle, length_at = self._start, self._middle, self._length_at
        at, end = 0, len(chunk) - length_at - 1
        while at < end and len(batches) < requests_max:
            # Compare all bytes before the batch except the correlation id: a match means the same decoded request.
            size, frame_start, correlation_id = _PREFIX.unpack_from(chunk, at)
            body = at + length_at
            if frame_start != start or chunk[at + _PREFIX.size : body] != middle:
                break
            stop = at + _SIZE_BYTES + size
            records = _records(chunk, view, body, stop)
            # Not all of the frame has arrived, or its length has changed its own width.
            if records is None:
                break
            try:
                header = validate_batch_set(records, bytes_max)
                # A false header would mislead readers and look-ups by time, so the records are walked here, too.
                if header.attributes:
                    if self._greatest_timestamp_ms(header, records) != header.max_timestamp_ms:
                        break
                elif (
                    _greatest_timestamp(records, HEADER_BYTES, header.record_count, header.base_timestamp_ms)
                    != header.max_timestamp_ms
                ):
                    break
            # A refusal is an answer of the dispatcher's. Requests before this one are appended all the same.
            except (Refused, ProtocolError):
                break
            # message.timestamp.after.max.ms: the bound only rises with time, so the clock is read when it is passed.
            if header.max_timestamp_ms > self._latest_ms and not self._is_not_late(header.max_timestamp_ms):
                break
            correlation_ids.append(correlation_id)
            batches.append((records, header))
            ends.append(stop)
            at = stop
        return correlation_ids, batches, ends


def fast_path_for(
    frame: Buffer, request: ProduceRequest, context: RequestContext[ProduceParts], requests_total: dict[int, int]
) -> ProduceFastPath | None:
    """The fast path of a request that was just decoded, or None if it is not of the kind that fast paths know.

    `requests_total` counts the requests that a fast path handles, by API.
    """
    api_version, broker = context.api_version, context.broker
    if (
        api_version < FLEXIBLE_FROM
        or type(frame) is not bytes
        # No answer is due, so there is none to encode ahead.
        or request.acks == ACKS_NONE
        # Every batch of a transaction is checked against its state (KIP-890).
        or request.transactional_id is not None
        or len(request.topic_data) != 1
        or len(request.topic_data[0].partition_data) != 1
        or not frame.endswith(_TAGS)
    ):
        return None
    topic_data = request.topic_data[0]
    data = topic_data.partition_data[0]
    topic = broker.topics.get(topic_data.name) if topic_data.name else broker.topics.by_id(topic_data.topic_id)
    partition = topic.partition(data.index) if topic is not None else None
    encode = single_frame_encoder(api_version, topic_data.name, topic_data.topic_id, data.index)
    length = 0 if data.records is None else len(data.records) + 1
    if partition is None or partition.is_internal or not partition.standing.is_led_here:
        return None
    if encode is None or not 0 < length <= _TWO_BYTES_MAX:
        return None
    config = partition.config
    if config.compacted or config.log_append_time or config.timestamp_before_max_ms < _UNLIMITED_MS or config.schemas:
        return None  # what depends on contents, or on the time in ways that a fast path does not know
    if not may(context, Operation.WRITE, ResourceType.TOPIC, partition.topic_name, quietly=True):
        return None  # the dispatcher has refused it, and will again
    length_at = len(frame) - len(_TAGS) - (length - 1) - (1 if length <= _ONE_BYTE_MAX else 2)
    if _records(frame, memoryview(frame), length_at, len(frame)) != data.records:
        return None  # tags or bytes at the end that a fast path does not know
    try:
        return ProduceFastPath(
            broker, requests_total, partition, topic_data, request, context, frame, length_at, encode
        )
    except Refused:
        return None


def _records(chunk: bytes, view: memoryview, length_at: int, stop: int) -> memoryview | None:
    """The batch of the frame that ends at `stop`, where its compact length has one or two bytes and fits.

    At least two bytes follow `length_at`. None where it is otherwise, or the frame is not whole.
    """
    length = chunk[length_at]
    start = length_at + 1
    if length > _ONE_BYTE_MAX:
        second = chunk[start]
        # A third byte means 16 KiB or more, where examining and copying outweigh decoding.
        if second > _ONE_BYTE_MAX:
            return None
        length = length & _ONE_BYTE_MAX | second << 7
        start += 1
    end = stop - len(_TAGS)
    if start + length - 1 != end or chunk[end:stop] != _TAGS:
        return None
    return view[start:end]
