"""Waiting: one table for each of the three shapes of a wait.

`table` parks under keys with deadlines and owners, `ordered` at rising positions of a stream, `numbered` under numbers
at a million waits a second. `fair` shares a table's capacity among many clients.
"""
