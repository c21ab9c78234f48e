"""Transactions of Kafka's producers: who may write, what belongs together, and how it ends."""
