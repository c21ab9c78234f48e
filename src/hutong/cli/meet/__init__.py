"""The duplex exercise: two neighbours meet on one connection and both speak and listen at once.

`lines` is the framing of one line, `runs` works on many lines at once, `machine` is one side, `driver` puts a side on
the reactor, `remote` does the same over remoting, `pair` runs both sides in two processes. Knows nothing of brokers.
"""
