"""The way of requests in a cluster: whom each is for, and which node that is."""
