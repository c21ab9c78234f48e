"""Committed offsets of all kinds of groups: the table, its log, transactions and retention."""
