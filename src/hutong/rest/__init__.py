"""HTTP for records, topics and groups, in the shape of Confluent's REST proxy.

Strategy: the gateway is an ordinary Kafka client of each user. It logs in with name and password of the request, so
rights and quotas are the broker's, a node of a cluster serves what all nodes have, and it works before any Kafka.
"""
