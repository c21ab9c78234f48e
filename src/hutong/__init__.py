"""Hutong: a messaging backbone in Python."""
