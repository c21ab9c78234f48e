"""A worker that consumes, transforms and produces in transactions, in a process that may be killed at any point.

    python -m tests.support.eos_worker JOURNAL BOOTSTRAP GROUP INPUT OUTPUT TRANSACTIONAL_ID [NAME=VALUE ...]

Strategy: what librdkafka's documentation asks for, and nothing more: a transaction takes what one poll brought, its
output and the group's new offsets; an error that asks for it is answered by aborting and reading again from what is
committed, a fatal one by ending with FENCED_STATUS, so that a new process may take over. One transaction in so many is
aborted on purpose. The journal has one line for each end of a transaction, for those who want to count.

librdkafka 2.16 may wait for ever in `send_offsets_to_transaction` when the group's coordinator was away, whatever
timeout it was given (a fault that its makers know): an alarm ends a process that is so long in one transaction.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

POLL_S: Final = 0.05
ANSWER_S: Final = 10.0
TRANSACTION_TIMEOUT_MS: Final = 8000
RECORDS_MAX: Final = 100
ABORT_EVERY: Final = 7
FENCED_STATUS: Final = 3
STUCK_S: Final = 5
STUCK_STATUS: Final = -signal.SIGALRM
IMPATIENT: Final = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}


def transformed(value: bytes) -> bytes:
    return b"out of " + value


class Worker:
    """One transactional id at work."""

    def __init__(
        self, journal: str, bootstrap: str, group: str, output: str, transactional_id: str, settings: Mapping[str, str]
    ) -> None:
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._output = output
        self._transactions = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 1,
                **IMPATIENT,
            }
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **IMPATIENT,
                **settings,
            }
        )

    def run(self, topic: str) -> None:
        """Work until SIGTERM."""
        self._repeat(lambda: self._producer.init_transactions(ANSWER_S))
        self._consumer.subscribe([topic])
        while not IS_OVER:
            messages = [one for one in self._consumer.consume(RECORDS_MAX, POLL_S) if not one.error()]
            if messages:
                signal.alarm(STUCK_S)
                self._transact(messages)
                signal.alarm(0)
        self._consumer.close()

    def _transact(self, messages: list[Message]) -> None:
        self._transactions += 1
        try:
            self._producer.begin_transaction()
            for message in messages:
                self._producer.produce(self._output, transformed(message.value() or b""), key=message.key())
            if self._transactions % ABORT_EVERY == 0:
                self._producer.flush(ANSWER_S)  # so that there is something to hide from readers
                self._give_up("aborted on purpose")
                return
            self._repeat(lambda: self._send_offsets(messages))
            self._repeat(lambda: self._producer.commit_transaction(ANSWER_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._give_up(f"aborted: {error.args[0].name()}")
        else:
            self._say(f"committed {len(messages)}")

    def _send_offsets(self, messages: list[Message]) -> None:
        following = {(one.topic(), one.partition()): one.offset() for one in messages}
        places = [
            TopicPartition(topic or "", partition or 0, (offset or 0) + 1)
            for (topic, partition), offset in following.items()
        ]
        self._producer.send_offsets_to_transaction(places, self._consumer.consumer_group_metadata(), ANSWER_S)

    def _give_up(self, why: str) -> None:
        """Abort, and read again from what the group has committed."""
        self._repeat(lambda: self._producer.abort_transaction(ANSWER_S))
        places = self._consumer.assignment()
        while places:
            try:
                kept = self._consumer.committed(places, ANSWER_S)
                break
            except KafkaException:
                continue  # the node is away
        else:
            kept = []
        for place in kept:
            self._consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
        self._say(why)

    def _repeat(self, step: Callable[[], object]) -> None:
        """Take a step again as long as it says that this may help."""
        while True:
            try:
                step()
                return
            except KafkaException as error:
                if error.args[0].fatal() or error.args[0].txn_requires_abort() or not error.args[0].retriable():
                    raise

    def _say(self, line: str) -> None:
        os.write(self._journal, f"{line}\n".encode())


IS_OVER: Final[list[int]] = []
signal.signal(signal.SIGTERM, lambda number, _frame: IS_OVER.append(number))


def main() -> None:
    journal, bootstrap, group, topic, output, transactional_id, *settings = sys.argv[1:]
    worker = Worker(journal, bootstrap, group, output, transactional_id, dict(one.split("=", 1) for one in settings))
    try:
        worker.run(topic)
    except KafkaException as error:
        worker._say(f"ended: {error.args[0].name()} {error.args[0].str()}")
        os._exit(FENCED_STATUS)
    os._exit(0)  # at once: a signal that comes while Python clears up would end it otherwise


if __name__ == "__main__":
    main()
