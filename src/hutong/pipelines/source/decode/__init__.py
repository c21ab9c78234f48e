"""Kafka RecordBatches v2 to Arrow columns, in one compiled pass over the bytes."""
