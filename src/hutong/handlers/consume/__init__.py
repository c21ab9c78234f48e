"""One consumer of topics: a pure machine, its driver on the loop, and the client library's thread."""
