"""The coordinator by ZooKeeper, with the extra `zookeeper`: `opening` makes it, `session` alone uses kazoo."""
