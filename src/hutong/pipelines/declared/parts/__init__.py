"""Spark's parts of a declaration, and the explanation of them."""
