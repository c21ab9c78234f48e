"""Arrow columns to Kafka RecordBatches v2, in one compiled pass per batch."""
