"""Settings of brokers and of the node itself, with their sources."""
