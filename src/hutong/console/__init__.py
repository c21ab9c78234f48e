"""The console: a browser's view of a log, its groups, the bus and the node."""
