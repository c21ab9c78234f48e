"""Calls from requests to the coordinators of groups and transactions, and from those to the partitions."""
