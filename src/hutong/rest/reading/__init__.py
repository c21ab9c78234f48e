"""Records that go out by HTTP: reads by position, live streams, and the consumer behind both."""
