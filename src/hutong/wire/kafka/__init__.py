"""Kafka's wire format: bytes to typed messages and back.

`apis` holds the tables, `codecs` turns them into functions, `headers` does what surrounds a body, `records` reads and
writes record batches. Knows nothing of sockets, topics or time.
"""
