"""The outbox of a node: which frames leave together, and when."""

import asyncio
from collections.abc import Sequence

from tests.support.waiting import turning_until

from hutong.bus.clustered.limits import ClusteredLimits
from hutong.bus.clustered.outbox import TOGETHER_MIN, Outbox, Outgoing
from hutong.runtime.contexts.contexts import PASS_MAX


class Sent:
    """Every write, as the numbers of its frames."""

    def __init__(self, limits: ClusteredLimits | None = None) -> None:
        self.writes: list[list[int]] = []
        self.outbox = Outbox(asyncio.get_running_loop(), limits or ClusteredLimits(), lambda: None, self._transmit)

    def _transmit(self, frames: list[Outgoing], size: int) -> None:
        assert size == sum([len(data) for data, _, _ in frames])
        self.writes.append([int(data) for data, _, _ in frames])

    def send(self, number: int) -> None:
        self.outbox.run(self._put, number)

    def _put(self, number: int) -> None:
        self.outbox.put((b"%d" % number, None, None))

    def answer(self, arrived: int, numbers: Sequence[int]) -> None:
        """Send while so many messages of the node are handled."""
        self.outbox.cork(arrived)
        for number in numbers:
            self.send(number)
        self.outbox.uncork()


async def test_a_few_frames_of_one_step_leave_together() -> None:
    sent = Sent()
    sent.outbox.release()
    for number in range(TOGETHER_MIN - 1):
        sent.send(number)
    assert sent.writes == []
    await asyncio.sleep(0)
    assert sent.writes == [[*range(TOGETHER_MIN - 1)]]
    sent.outbox.check_invariants()


async def test_of_many_frames_the_first_leave_before_the_last_are_there() -> None:
    sent = Sent()
    sent.outbox.release()
    for number in range(2_000):
        sent.send(number)
    await asyncio.sleep(0)
    assert [len(write) for write in sent.writes][:4] == [
        TOGETHER_MIN,
        2 * TOGETHER_MIN,
        4 * TOGETHER_MIN,
        8 * TOGETHER_MIN,
    ]
    assert max(len(write) for write in sent.writes) == PASS_MAX
    assert [number for write in sent.writes for number in write] == [*range(2_000)]
    # It begins anew with the next step.
    for number in range(TOGETHER_MIN):
        sent.send(number)
    assert sent.writes[-1] == [*range(TOGETHER_MIN)]


async def test_answers_to_what_has_arrived_leave_in_the_same_step() -> None:
    sent = Sent()
    sent.outbox.release()
    sent.answer(2, [0, 1])
    assert sent.writes == [[0, 1]]
    sent.answer(2, [])
    await asyncio.sleep(0)
    assert sent.writes == [[0, 1]]
    assert not sent.outbox.is_scheduled


async def test_the_first_frame_after_a_single_message_leaves_at_once() -> None:
    sent = Sent()
    sent.outbox.release()
    sent.answer(1, [])
    for number in range(3):
        sent.send(number)
    assert sent.writes == [[0]]
    await asyncio.sleep(0)
    assert sent.writes == [[0], [1, 2]]


async def test_frames_that_wait_already_keep_their_place() -> None:
    sent = Sent()
    sent.outbox.release()
    sent.send(0)
    # A pass is due already, which takes these as well.
    sent.answer(3, [1])
    assert sent.writes == []
    await asyncio.sleep(0)
    assert sent.writes == [[0, 1]]


async def test_a_held_outbox_sends_nothing_before_its_release() -> None:
    sent = Sent()
    sent.answer(1, range(2 * TOGETHER_MIN))
    await asyncio.sleep(0)
    assert sent.writes == []
    sent.outbox.release()
    assert sent.writes == [[*range(2 * TOGETHER_MIN)]]


async def test_frames_of_other_threads_are_sent_by_the_loop() -> None:
    sent = Sent()
    sent.outbox.release()

    def elsewhere() -> None:
        for number in range(2 * TOGETHER_MIN):
            sent.send(number)

    await asyncio.to_thread(elsewhere)
    await turning_until(lambda: sum(map(len, sent.writes)) == 2 * TOGETHER_MIN)
    assert [number for write in sent.writes for number in write] == [*range(2 * TOGETHER_MIN)]
