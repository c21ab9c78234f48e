"""RPC over plain connections: command frames between a client and the services of a node."""
