"""Produces and consumes by a client of the REST proxy that is not ours: prints what it has read, as one JSON object.

python stock_rest_client.py http://HOST:PORT/ TOPIC
"""

import json
import sys

from pymapr_kafkarest.kafkarest import MaprKlient, MaprKProducer  # type: ignore[import-untyped]


def main() -> None:
    url, topic = sys.argv[1:]
    producer = MaprKProducer(url, headers={}, retry={})
    producer.retry = 0  # it repeats what has succeeded
    producer.produce([{"key": "k", "value": {"number": number}} for number in range(3)], topic)
    consumer = MaprKlient(url, "stock", headers={}, topics=[topic], instance="one")
    consumer.connect()
    consumer.subscribe()
    found: list[dict[str, object]] = []
    for _ in range(60):
        found += consumer.consume()
        if len(found) >= 3:
            break
    again = consumer.consume(seek=True)
    consumer._instance_delete()
    print(json.dumps({"found": found, "again": again}))


if __name__ == "__main__":
    main()
