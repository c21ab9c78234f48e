"""Encoders and decoders: Python functions compiled from the tables of Kafka's messages."""
