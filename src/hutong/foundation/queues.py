"""A bounded first-in first-out queue that tells its producer when to pause and when to go on.

Strategy: two bounds in one unit, chosen by the user (items, bytes): `capacity` refuses, the water marks advise. The
high mark is reported once on the way up, the low mark once on the way down, so a producer is not switched to and fro.

Knows nothing of loops or sockets.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
Notice = Callable[[], None]


class BoundedQueue(Generic[T]):
    """Items with a size each; at most `capacity` in total.

    Above `high_water` the queue `is_high` and `on_high` is called; at or below `low_water` it is not any more and
    `on_low` is called. By default the high mark is three quarters of the capacity, the low mark a half of the high one.
    """

    def __init__(
        self,
        name: str,
        capacity: int,
        *,
        high_water: int | None = None,
        low_water: int | None = None,
        on_high: Notice | None = None,
        on_low: Notice | None = None,
    ) -> None:
        self.name = name
        self.capacity = capacity
        self.refused_total = 0
        self._high_water = capacity * 3 // 4 if high_water is None else high_water
        self._low_water = self._high_water // 2 if low_water is None else low_water
        if not 0 <= self._low_water <= self._high_water <= capacity:
            raise ValueError(f"{name}: water marks must satisfy 0 <= low <= high <= capacity")
        self._on_high = on_high
        self._on_low = on_low
        self._items: deque[tuple[T, int]] = deque()
        self._size = 0
        self._is_high = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def size(self) -> int:
        """Sum of the sizes of what is queued; never more than `capacity`."""
        return self._size

    @property
    def is_high(self) -> bool:
        return self._is_high

    def offer(self, item: T, size: int = 1) -> bool:
        """Queue the item. False, and nothing queued, if it does not fit: the caller must say so to its own peer."""
        if size < 0:
            raise ValueError("an item has no negative size")
        if self._size + size > self.capacity:
            self.refused_total += 1
            return False
        self._items.append((item, size))
        self._size += size
        if self._size > self._high_water and not self._is_high:
            self._is_high = True
            if self._on_high is not None:
                self._on_high()
        return True

    def take(self) -> T:
        """The oldest item. Raises IndexError when empty."""
        item, size = self._items.popleft()
        self._size -= size
        if self._is_high and self._size <= self._low_water:
            self._is_high = False
            if self._on_low is not None:
                self._on_low()
        return item
