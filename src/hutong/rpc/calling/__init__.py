"""The side of a caller: proxies, calls by name, transports, streams of a service's answers."""
