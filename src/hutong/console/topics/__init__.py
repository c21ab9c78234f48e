"""Topics: their list with sizes and rates, one topic with its partitions and settings, and changes of them."""
