"""Hutong measured from outside, next to any other Kafka broker: `python -m bench --help`.

Strategy: everything here speaks to an address. The same client code runs against every target in the same
invocation, in alternating turns after a warm-up, and what is printed are medians and ratios; figures of another day
are no evidence.
"""
