"""Work of a loop counted by its iterations, which is what other connections wait for; time is not looked at."""

import asyncio


class WorkPerIteration:
    """`count` is called on the loop for each piece of work. `most` is the largest count of two iterations in a row.

    Of two, because the callback that ends a count takes its place behind those that are scheduled already.
    """

    def __init__(self) -> None:
        self.total = 0
        self.most = 0
        self._now = 0

    def count(self, pieces: int = 1) -> None:
        if not self._now:
            asyncio.get_running_loop().call_soon(self._ended)
        self._now += pieces
        self.total += pieces

    def _ended(self) -> None:
        self.most = max(self.most, self._now)
        self._now = 0
