"""What requests ask of the coordinators of groups and transactions, and what those ask of the partitions."""
