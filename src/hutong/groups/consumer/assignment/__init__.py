"""Topics, subscriptions and assignors: the partitions that each member shall have."""
