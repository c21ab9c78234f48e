"""The cluster: which nodes there are, which of them are alive, and who leads which partition group."""
