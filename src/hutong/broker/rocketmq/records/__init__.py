"""Messages of RocketMQ as records of the log: translation, names, positions, bodies."""
