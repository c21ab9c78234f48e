"""The embedded cluster: several nodes of one process on one loop, and the paths between them that a test cuts."""
