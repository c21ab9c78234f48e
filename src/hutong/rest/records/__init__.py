"""Records that come by HTTP: bodies of both versions of the proxy's API to records, and their outcomes."""
