"""Memory of all connections of a loop: the bound, and the watch that keeps it."""
