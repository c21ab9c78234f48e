"""Consume, transform, produce: copies a topic to another in transactions, until it is killed or cannot go on.

    python transactional_copier.py ADDRESS SOURCE SINK GROUP TRANSACTIONAL_ID

Strategy: what the client does not call fatal is aborted and read again from the committed offset; else the process
ends, and whoever started it starts another.
"""

import contextlib
import faulthandler
import os
import sys

from confluent_kafka import Consumer, KafkaException, Producer

BATCH_RECORDS = 20
TIMEOUT_S = 10
OFFSETS_TIMEOUT_S = 3
TRIES = 3
STUCK_S = 12  # after losing its coordinator this client may wait without having asked for anything


def main(address: str, source_topic: str, sink_topic: str, group: str, transactional_id: str) -> None:
    source = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
        }
    )
    source.subscribe([source_topic])
    to = Producer({"bootstrap.servers": address, "transactional.id": transactional_id})
    to.init_transactions(TIMEOUT_S)
    while True:
        batch = [message for message in source.consume(BATCH_RECORDS, 0.1) if not message.error()]
        if batch:
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
            copy(source, to, sink_topic, batch)
            faulthandler.cancel_dump_traceback_later()


def copy(source: Consumer, to: Producer, sink_topic: str, batch: list) -> None:  # type: ignore[type-arg]
    to.begin_transaction()
    try:
        for message in batch:
            to.produce(sink_topic, message.value())
        to.send_offsets_to_transaction(
            source.position(source.assignment()), source.consumer_group_metadata(), OFFSETS_TIMEOUT_S
        )
        retried(to.commit_transaction)
    except KafkaException as error:
        # After its coordinator was away this client may wait in vain for sending offsets; then it may abort as well.
        if error.args[0].fatal():
            os._exit(1)  # closing a client with an open transaction may take long
        retried(to.abort_transaction)
        for partition in source.committed(source.assignment(), TIMEOUT_S):
            partition.offset = max(partition.offset, 0)
            with contextlib.suppress(KafkaException):
                source.seek(partition)


def retried(step) -> None:  # type: ignore[no-untyped-def]
    for _ in range(TRIES):
        try:
            step(TIMEOUT_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                break
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
