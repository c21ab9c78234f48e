"""Waiting: one table for each of the three shapes of a wait, and the value that comes later.

`table` parks under keys with deadlines and owners, `ordered` at rising positions of a stream, `numbered` under numbers
at a million waits a second. `pending` is what a function returns instead of a value that comes later.
"""
