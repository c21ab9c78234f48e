"""RocketMQ's requests among several nodes: routes, commands for other nodes, topics, and appends elsewhere."""
