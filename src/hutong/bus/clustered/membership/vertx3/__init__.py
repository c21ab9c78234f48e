"""A cluster of Vert.x 3 in ZooKeeper: the other layout of vertx-zookeeper, with the same sessions and connections."""
