"""The command line. It reaches a broker by the Kafka wire protocol alone, so that it serves any Kafka cluster too."""
