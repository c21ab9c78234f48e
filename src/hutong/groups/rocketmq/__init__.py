"""Groups of RocketMQ's clients: who is in them, and who may read which queue in order."""
