"""Settings that clients see and change while the node runs, for each kind of resource."""
