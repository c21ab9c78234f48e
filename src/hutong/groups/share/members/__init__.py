"""Who is in a share group, and which partitions each of them looks at."""
