"""SASL as a server speaks it: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677), and how a connection goes through them.

Strategy: pure machines, messages in and steps out (`steps`). `machine` is one connection's; `plain` and `scram` are the
exchanges inside it. Who the users are comes by a port.

Knows nothing of Kafka's requests, sockets or clocks.
"""
