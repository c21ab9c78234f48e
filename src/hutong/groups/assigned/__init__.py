"""Groups whose partitions or tasks the broker assigns: what consumer groups and streams groups have in common."""
