"""Classic groups: members join at a barrier, and one of them assigns the partitions."""
