"""The headers by which programs say why a record was given up and where it was; one module for each convention.

`known.py` lists them all and asks each in turn.
"""
