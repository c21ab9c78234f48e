"""A state topic for tests of drivers: the test decides what becomes durable, and when."""

from collections.abc import Mapping, Sequence

from hutong.foundation.errors import HutongError
from hutong.foundation.machine_host import StateRecord
from hutong.foundation.waiting.pending import Continuation


class FakeState:
    """Appends are durable at once, unless the test `holds_back`; they fail at once while there is a `failure`."""

    def __init__(self) -> None:
        self.durable: list[StateRecord] = []
        self.on_their_way: list[tuple[list[StateRecord], Continuation[None]]] = []
        self.holds_back = False
        self.failure: HutongError | None = None
        self.appends_total = 0

    @property
    def live(self) -> Mapping[bytes, bytes]:
        latest = dict(self.durable)
        return {key: value for key, value in latest.items() if value is not None}

    def append_all(self, records: Sequence[StateRecord], then: Continuation[None]) -> None:
        self.appends_total += 1
        if self.failure is not None:
            then(self.failure)
            return
        self.on_their_way.append((list(records), then))
        if not self.holds_back:
            self.flush()

    def flush(self, count: int = 1_000, error: HutongError | None = None) -> None:
        """End at most `count` appends, oldest first, those that follow from them too: all are durable, or fail."""
        while self.on_their_way and count:
            count -= 1
            records, then = self.on_their_way.pop(0)
            if error is None:
                self.durable += records
            then(error)

    def copy_live(self, count: int, turn: int = 0) -> None:
        """Append `count` live records again, as a snapshot does: behind newer ones, none that is about to change."""
        changing = {key for records, _ in self.on_their_way for key, _ in records}
        live = [(key, value) for key, value in self.live.items() if key not in changing]
        turn = turn % len(live) if live else 0
        self.durable += (live[turn:] + live[:turn])[:count]
