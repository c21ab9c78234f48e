"""The cluster: the nodes, those of them that are alive, and the leader of each partition group."""
