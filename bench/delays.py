"""Messages that wait for their time: `python -m bench delays [--messages 1000000] [--seconds 60]`.

Strategy: the records of delayed messages are put into the queues of the delays, as a node stores them. They are due
within some seconds after that, evenly. The node's memory is read before, while all of them wait, and each second while
they come. Each has its time in a header, and its time of arrival as its timestamp, so their difference is how late it
came.
"""

import argparse
import pathlib
import time
from collections.abc import Sequence
from contextlib import ExitStack

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.figures import cpu_seconds, memory
from bench.processes import ReadyProcess
from bench.raw_client import create_topic
from bench.targets import hutong_command, scratch_folder
from hutong.broker.delays.steps import QUEUES, DelayedRecord, DeliveryPlace, packed, step_for
from hutong.broker.topics.internal_topics import DELAYED_TOPIC
from hutong.wire.kafka.batch.records import Record

TOPIC = "delayed"
LEAD_S = 45
VALUE_BYTES = 128


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench delays", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=60, help="within which they are due")
    parser.add_argument("--lead", type=int, default=LEAD_S, help="seconds until the first is due")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
        command = [*hutong_command(folder / "data"), "--rocketmq", "127.0.0.1:0"]
        with ReadyProcess(command, log_path=str(folder / "node.log")) as first:
            _create(first.fields["kafka"])
        # The queues are run from a start on where their topic is there.
        node = stack.enter_context(ReadyProcess(command, log_path=str(folder / "node.log")))
        _tell_memory("without any", node)
        first_ms = int(time.time() * 1_000) + options.lead * 1_000
        _put(node.fields["kafka"], options.messages, first_ms, options.seconds)
        _tell_memory(f"{options.messages} wait", node)
        _watch(node, first_ms + options.seconds * 1_000)
        _tell_lateness(node.fields["kafka"], options.messages)
    return 0


def _create(bootstrap: str) -> None:
    create_topic(bootstrap, TOPIC, records=0)
    forever = {"retention.ms": "-1", "retention.bytes": "-1"}
    create_topic(bootstrap, DELAYED_TOPIC, partitions=QUEUES, records=0, configs=forever)


def _put(bootstrap: str, count: int, first_ms: int, seconds: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 200_000})
    value = bytes(VALUE_BYTES)
    place = DeliveryPlace(TOPIC, 0)
    for number in range(count):
        now_ms = int(time.time() * 1_000)
        due_ms = first_ms + number * seconds * 1_000 // count
        delayed = DelayedRecord(due_ms, place, Record(value=value, headers=[("due", b"%d" % due_ms)]))
        record = packed(delayed, now_ms)
        queue = 1 + step_for(due_ms - now_ms)
        while True:
            try:
                producer.produce(DELAYED_TOPIC, value, headers=list(record.headers), partition=queue, timestamp=now_ms)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(60) == 0


def _watch(node: ReadyProcess, last_ms: int) -> None:
    pid = int(node.fields["pid"])
    cpu, greatest = cpu_seconds(pid), 0.0
    while time.time() * 1_000 < last_ms + 5_000:
        greatest = max(greatest, memory(pid).rss_mb)
        time.sleep(1)
    print(f"while they came: resident {greatest:.0f} MB at most; {cpu_seconds(pid) - cpu:.1f} s of processor time")


def _tell_memory(when: str, node: ReadyProcess) -> None:
    print(f"{when}: resident {memory(int(node.fields['pid'])).rss_mb:.0f} MB", flush=True)


def _tell_lateness(bootstrap: str, count: int) -> None:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    reader.assign([TopicPartition(TOPIC, 0, 0)])
    late_ms: list[int] = []
    while True:
        found = reader.consume(10_000, 5)
        if not found:
            break
        for message in found:
            assert message.error() is None, message.error()
            due = dict(message.headers() or ())["due"]
            assert isinstance(due, bytes)
            late_ms.append(message.timestamp()[1] - int(due))
    reader.close()
    late_ms.sort()
    assert late_ms[0] >= 0, "before its time"
    at = [late_ms[min(len(late_ms) - 1, int(len(late_ms) * share))] for share in (0.5, 0.99, 0.999)]
    print(
        f"{len(late_ms)} of {count} came; late p50 {at[0]} ms, p99 {at[1]} ms, p99.9 {at[2]} ms, max {late_ms[-1]} ms"
    )
