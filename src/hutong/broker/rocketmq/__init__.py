"""RocketMQ's name server and broker, on the topics and groups that Kafka clients use: one file for each request."""
