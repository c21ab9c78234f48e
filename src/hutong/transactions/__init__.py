"""Transactions of Kafka's producers: the right to write, the partitions of a transaction, and its end."""
