"""HTTP requests that a node makes itself: keys of a provider are fetched, and clients' metrics sent on.

Strategy: each is one request on a thread, with one deadline, to an address of the settings (`asking`). `urls` reads
such an address, `metrics` sends metrics to a collector.
"""
