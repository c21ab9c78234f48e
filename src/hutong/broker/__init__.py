"""The broker: topics over journals, and one handler for each of Kafka's APIs.

`topics` is the catalogue, `topics.partition` what a handler sees of a log, `dispatch` the way from a frame to a handler
and back, `kafka/` the handlers. First change: read `kafka/k60_describe_cluster.py`, then `kafka/k21_delete_records.py`.
"""
