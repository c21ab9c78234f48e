"""Streams groups: the broker assigns the tasks of a Kafka Streams application (KIP-1071)."""
