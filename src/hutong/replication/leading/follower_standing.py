"""The standing of one follower at its leader: what was sent to it, what it has, and since when it keeps up.

Strategy: a follower keeps up if it has stored by now what the stream had some time ago (as in Kafka, KIP-16). So one
that is always a little behind a busy stream is not late, and one that stores nothing is, however much it holds.

Knows nothing of sets: `machine` decides who is in sync.
"""

from typing import Final

LONG_AGO_MS: Final = -(1 << 40)


class FollowerStanding:
    """One follower. Its positions stay while it is not connected, and begin anew when it joins again."""

    __slots__ = (
        "_mark_ms",
        "_mark_position",
        "caught_up_ms",
        "held_position",
        "incarnation",
        "is_following",
        "is_shipping",
        "left_ms",
        "next_position",
        "spared_until_ms",
        "stored_position",
    )

    def __init__(self, now_ms: int, *, is_member: bool) -> None:
        """A member of the set counts as one that keeps up, until it is late."""
        self.incarnation = -1
        self.is_following = False  # connected, and its stream is a part of the leader's
        self.is_shipping = False
        self.next_position = 0  # to be sent to it
        self.held_position = 0
        self.stored_position = 0
        self.left_ms: int | None = now_ms  # since when it is not connected
        self.spared_until_ms = LONG_AGO_MS  # not taken for late before, as the leader had no processor
        self.caught_up_ms = now_ms if is_member else LONG_AGO_MS  # when it had last stored what the stream had
        self._mark_position = 0
        self._mark_ms = now_ms

    def follow(self, incarnation: int, position: int, end_position: int, now_ms: int) -> None:
        """Begin to follow at a position. What it had on disk before is counted once it says so again."""
        self.incarnation = incarnation
        self.is_following, self.is_shipping, self.left_ms = True, False, None
        self.next_position = self.held_position = position
        self.stored_position = 0
        self._mark_position, self._mark_ms = end_position, now_ms

    def leave(self, now_ms: int) -> None:
        """It is not connected any more. What it has stays, and what was sent may be lost."""
        self.is_following = self.is_shipping = False
        if self.left_ms is None:
            self.left_ms = now_ms

    def acknowledge(self, held_position: int, stored_position: int, end_position: int, now_ms: int) -> None:
        """Take its positions, none of which is taken back, while the stream ends at `end_position`."""
        self.held_position = max(self.held_position, min(held_position, self.next_position))
        self.stored_position = max(self.stored_position, min(stored_position, self.held_position))
        if self.stored_position >= end_position:
            self.caught_up_ms = now_ms
        elif self.stored_position >= self._mark_position:
            self.caught_up_ms = max(self.caught_up_ms, self._mark_ms)
        if self.stored_position >= self._mark_position:
            self._mark_position, self._mark_ms = end_position, now_ms
