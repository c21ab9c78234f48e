"""A node that is one of several: its parts of the cluster, and the broker around them."""
