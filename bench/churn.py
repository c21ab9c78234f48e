"""Clients that come and go, without end: connections, idempotent producers with new ids, topics, group members.

Strategy: one round after the other, a few a second, each with fresh clients: what a round leaves behind in the broker
must not add up. Started by `bench soak` as `python -m bench.churn ADDRESS`; says `ready`, and on SIGTERM how many
rounds there were, as JSON. An error ends it. Knows nothing of what is measured.
"""

import json
import signal
import sys
import time
from itertools import count

from confluent_kafka import Consumer, Producer

from bench.raw_client import RawConnection, create_topic
from bench.steady import Topics
from bench.throughput import SILENCE_S_MAX

CONNECTIONS = 20  # of one round
RECORDS = 10
ROUND_S = 0.5
TOPIC = "churned"


def run_round(bootstrap: str, number: int) -> None:
    """Everything once."""
    connections = [RawConnection(bootstrap) for _ in range(CONNECTIONS)]
    for connection in connections:
        connection.close()
    produce_with_new_id(bootstrap)
    topics = Topics(f"brief-{number}", 1, 4)
    topics.create(bootstrap)
    create_topic(bootstrap, topics.names()[0])  # there already: one record into it
    join_and_leave(bootstrap, f"brief-{number % 10}")
    topics.delete(bootstrap)


def produce_with_new_id(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 4})
    for index in range(RECORDS):
        producer.produce(TOPIC, str(index))
    if producer.flush(SILENCE_S_MAX):
        raise TimeoutError("a record was not acknowledged")


def join_and_leave(bootstrap: str, group: str) -> None:
    """A member that reads something, commits it and leaves."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        consumer.subscribe([TOPIC])
        if consumer.consume(1, SILENCE_S_MAX):
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def main() -> None:
    bootstrap = sys.argv[1]
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
    Topics("unused").create(bootstrap)
    create_topic(bootstrap, TOPIC)
    print("ready", flush=True)
    begun_s = time.monotonic()
    for number in count():
        run_round(bootstrap, number)
        if stopped:
            break
        time.sleep(max(0.0, begun_s + (number + 1) * ROUND_S - time.monotonic()))
    print(json.dumps({"rounds": number + 1, "seconds": time.monotonic() - begun_s}))


if __name__ == "__main__":
    main()
