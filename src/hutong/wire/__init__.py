"""Bytes to values and back, for the protocols of Kafka, RocketMQ and Vert.x."""
