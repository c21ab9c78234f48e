"""Search in a topic: conditions, the machine that looks at records, and its progress."""
