"""Clients' metrics (KIP-714): who is asked for which, how often they may come, and where they go.

Strategy: `subscriptions` are the settings of administrators, read for one client; `machine` decides about each request;
`receiver` is the port by which metrics leave the node. A node without a receiver does not offer these APIs.
"""
