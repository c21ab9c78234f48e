"""A blocking client of any Kafka cluster: connections, brokers, leaders, coordinators. Knows nothing of Spark."""
