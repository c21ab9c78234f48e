"""Formats of schemas: what is a schema, and which schema reads what another one has written.

Strategy: each format is a class with `parse`; the parsed schema has its canonical text and is compared as reader with a
writer. They are imported when first needed, since their libraries are an extra.
"""
