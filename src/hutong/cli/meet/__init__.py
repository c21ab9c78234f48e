"""The duplex exercise: two neighbours meet on one connection and both speak and listen at once.

`lines` is the framing of one line, `runs` works on many lines at once, `machine` is one side. Knows nothing of brokers,
buses or calls.
"""
