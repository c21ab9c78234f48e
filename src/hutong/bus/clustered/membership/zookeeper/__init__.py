"""Membership by ZooKeeper, in the layout of vertx-zookeeper."""
