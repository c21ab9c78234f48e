"""A consumer of a durable address: a pure machine, its driver, and the client library's thread."""
