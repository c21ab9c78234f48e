"""The listener for RocketMQ's clients."""
