"""From frames to handlers and back: routes, long requests, and the figures of all requests."""
