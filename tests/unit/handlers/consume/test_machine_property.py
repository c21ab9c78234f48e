"""Any history of a handling machine: nothing is lost, keys keep their order, positions never pass what is not done."""

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.handlers.consume.scene import FIRST, Scene, record

from hutong.bus.durable.consume.retry import Retry
from hutong.handlers.consume.messages import HandlingRules, Place

SECOND: Place = ("orders", 1)
KEYS = (None, b"a", b"b")


class Histories(RuleBasedStateMachine):
    """Records come, handlers return or fail, partitions go and come back at what was committed."""

    @initialize(
        concurrency=strategies.integers(1, 4),
        batch_max=strategies.sampled_from([None, 1, 3]),
        keeps_finished=strategies.booleans(),
    )
    def begin(self, concurrency: int, batch_max: int | None, keeps_finished: bool) -> None:
        self.chosen = HandlingRules(concurrency, batch_max, 10, keeps_finished=keeps_finished, records_held_max=6)
        self.scene = Scene(self.chosen, Retry(attempts=2, first_delay=0.05, jitter=0))
        self.log: dict[Place, list[bytes | None]] = {FIRST: [], SECOND: []}
        self.fetched = dict.fromkeys(self.log, 0)
        self.committed = dict.fromkeys(self.log, 0)
        self.done: set[tuple[Place, int]] = set()
        self.owned: set[Place] = {FIRST, SECOND}
        self.scene.give(FIRST, SECOND)

    @rule(place=strategies.sampled_from([FIRST, SECOND]), keys=strategies.lists(strategies.sampled_from(KEYS)))
    def take(self, place: Place, keys: list[bytes | None]) -> None:
        if place not in self.owned or place in self.scene.paused:
            return
        self.log[place] += keys
        first = self.fetched[place]
        self.fetched[place] = len(self.log[place])
        records = [record(offset, key) for offset, key in enumerate(self.log[place])][first:]
        self.scene.take(*records, place=place)

    @rule(choice=strategies.integers(0, 9), fails=strategies.booleans(), has_output=strategies.booleans())
    def end_handler(self, choice: int, fails: bool, has_output: bool) -> None:
        if not self.scene.running:
            return
        item = self.scene.running[choice % len(self.scene.running)]
        place, is_ours = item.share.place, item.share is self.scene.machine._shares.get(item.share.place)
        self.scene.running.sort(key=lambda each: each is not item)  # the first of equal offsets
        self.scene.running.remove(item)
        rest, self.scene.running = self.scene.running, [item]
        offset = item.records[0].offset
        if fails:
            self.scene.fail(offset)
        else:
            self.scene.end(offset, *(["result"] if has_output else []))
            if is_ours and (not has_output or self.chosen.keeps_finished):
                self.done.update((place, taken.offset) for taken in item.records)
        self.scene.running += rest

    @rule(choice=strategies.integers(0, 9), is_stored=strategies.booleans())
    def end_publishing(self, choice: int, is_stored: bool) -> None:
        if not self.scene.publishing:
            return
        item = self.scene.publishing[choice % len(self.scene.publishing)]
        rest = [each for each in self.scene.publishing if each is not item]
        self.scene.publishing = [item]
        offset = item.records[0].offset
        if is_stored:
            if item.share is self.scene.machine._shares.get(item.share.place):
                self.done.update((item.share.place, taken.offset) for taken in item.records)
            self.scene.store(offset)
        else:
            self.scene.refuse(offset, is_hopeless=False)
        self.scene.publishing += rest

    @rule(milliseconds=strategies.sampled_from([10, 100, 2_000]))
    def pass_time(self, milliseconds: int) -> None:
        self.scene.pass_time(milliseconds)

    @rule(is_stored=strategies.booleans())
    def commit(self, is_stored: bool) -> None:
        taken = self.scene.machine.take_positions()
        if not is_stored:
            self.scene.machine.give_back(taken)
            return
        self.scene.hear(self.scene.machine.committed(taken))
        for place, position in taken.items():
            assert position.offset >= self.committed[place]
            self.committed[place] = position.offset
            assert all((place, offset) in self.done for offset in range(position.offset)), "a position passed work"

    @rule(place=strategies.sampled_from([FIRST, SECOND]))
    def lose(self, place: Place) -> None:
        if place in self.owned:
            self.owned.remove(place)
            self.scene.gone(place)
            self.scene.paused.discard(place)

    @rule(place=strategies.sampled_from([FIRST, SECOND]))
    def regain(self, place: Place) -> None:
        if place not in self.owned:
            self.owned.add(place)
            self.fetched[place] = self.committed[place]
            self.scene.give(place)

    @invariant()
    def slots_are_kept(self) -> None:
        if hasattr(self, "scene"):
            assert len(self.scene.running) <= self.chosen.concurrency

    @invariant()
    def a_key_has_one_handler(self) -> None:
        if not hasattr(self, "scene"):
            return
        shares = self.scene.machine._shares
        ours = [item for item in self.scene.running if item.share is shares.get(item.share.place)]
        if self.chosen.batch_max is not None or self.chosen.concurrency == 1:
            keys: list[object] = [item.share.place for item in ours]
        else:
            keys = [(item.share.place, item.key) for item in ours if item.key is not None]
        assert len(keys) == len(set(keys))

    def teardown(self) -> None:
        """With patience everything is done: nothing was lost on the way."""
        if not hasattr(self, "scene"):
            return
        for place in (FIRST, SECOND):
            self.regain(place)
        for _ in range(10_000):
            if all(self.committed[place] == len(self.log[place]) for place in self.log):
                return
            for place in (FIRST, SECOND):
                self.take(place, [])
            self.end_handler(0, False, False)
            self.end_publishing(0, True)
            self.pass_time(2_000)
            self.commit(True)
        raise AssertionError(f"{self.committed} of { {place: len(keys) for place, keys in self.log.items()} }")


Histories.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase
