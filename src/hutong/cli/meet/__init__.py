"""The duplex exercise: two neighbours meet on one connection and both speak and listen at once.

`lines` is the framing of one line, `runs` works on many lines at once, `machine` is one side, `driver` puts a side on
the reactor, `pair` runs both in two processes. Knows nothing of brokers, buses or calls.
"""
