"""The members of a share group, and the partitions of each."""
