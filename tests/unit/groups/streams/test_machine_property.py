"""For all histories of members and lost replies: a task is active once, epochs never fall, and all settles.

Clients behave as real ones do, in any order; replies get lost, members die and come back, topics change, the node
crashes. What the group believes is checked after every event by its own invariants; here it is compared with what the
clients themselves run.
"""

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.unit.groups.streams.play import NO_TASKS, SESSION_MS, Client, Play, settings, settle

from hutong.groups.assigned.messages import JOINING, LEAVING
from hutong.groups.assigned.states import AssignedGroupState
from hutong.groups.streams.messages import TaskRole

CLIENTS = 4
PROCESSES = ("p", "p", "q", "r")  # the first two are threads of one process
STEPS = st.one_of(
    st.tuples(st.just("beat"), st.integers(0, CLIENTS - 1), st.booleans()),
    st.tuples(st.just("beat"), st.integers(0, CLIENTS - 1), st.booleans()),
    st.tuples(st.just("obey"), st.integers(0, CLIENTS - 1)),
    st.tuples(st.just("leave"), st.integers(0, CLIENTS - 1)),
    st.tuples(st.just("die"), st.integers(0, CLIENTS - 1)),
    st.tuples(st.just("topic"), st.sampled_from(("lines", "by-word")), st.sampled_from((0, 4))),
    st.tuples(st.just("standbys"), st.integers(0, 2)),
    st.tuples(st.just("time"), st.sampled_from((100, 3_000, SESSION_MS))),
    st.tuples(
        st.just("crash"),
    ),
)


class World:
    """Four clients around one group."""

    def __init__(self, interval_ms: int, delay_ms: int, standbys: int) -> None:
        self.play = Play.counting(settings(interval_ms=interval_ms, delay_ms=delay_ms, standbys=standbys))
        self.clients = [Client(self.play, f"m{number}", PROCESSES[number]) for number in range(CLIENTS)]
        self.lives = 0
        self.heard_ms: dict[str, int] = {}

    def take(self, step: tuple[object, ...]) -> None:
        match step:
            case ("beat", int(number), bool(loses_reply)):
                client = self.clients[number]
                if not client.beat(loses_reply=loses_reply).error:
                    self.heard_ms[client.member_id] = self.play.now_ms
            case ("obey", int(number)):
                self.clients[number].obey()
            case ("leave", int(number)):
                if self.clients[number].epoch > JOINING:
                    self.play.beat(self.clients[number].member_id, LEAVING)
                self._begin_anew(self.clients[number])
            case ("die", int(number)):
                self._begin_anew(self.clients[number])
            case ("topic", str(name), 0):
                self.play.delete_topic(name)
            case ("topic", str(name), int(count)):
                self.play.set_topic(name, count)
            case ("standbys", int(count)):
                self.play.group.times = settings(standbys=count).rules
            case ("time", int(milliseconds)):
                self.play.pass_time(milliseconds)
            case _:
                self.play.restart()
        self._check_tasks()

    def _begin_anew(self, client: Client) -> None:
        """A process ends and another takes its place."""
        self.lives += 1
        client.member_id = f"{client.member_id.split('/')[0]}/{self.lives}"
        client.epoch, client.owned, client.wanted, client.said = JOINING, NO_TASKS, NO_TASKS, None

    def _check_tasks(self) -> None:
        """Nobody runs what another runs. Who was not heard of for a session's time must stop by itself."""
        active: set[tuple[str, int]] = set()
        folders: set[tuple[str, int, str]] = set()
        for client in self.clients:
            if self.play.now_ms - self.heard_ms.get(client.member_id, -SESSION_MS) >= SESSION_MS:
                continue
            for role, name, index in client.owned:
                assert (name, index) not in active or role is not TaskRole.ACTIVE, f"{name}-{index} is active twice"
                assert (name, index, client.process) not in folders, f"{name}-{index} is twice in {client.process}"
                folders.add((name, index, client.process))
                if role is TaskRole.ACTIVE:
                    active.add((name, index))

    def check_settled(self) -> None:
        """After the dead have lapsed and the living were heard, every task runs, in one epoch."""
        for name in ("lines", "by-word", "counts-changelog"):
            self.play.set_topic(name, 4)
        for _ in range(4):
            self.play.pass_time(SESSION_MS // 2)
            settle(*self.clients, rounds=1)
        for _ in range(16):
            self.play.pass_time(1_000)
            settle(*self.clients, rounds=1)
        group = self.play.group
        assert group.state is AssignedGroupState.STABLE
        assert {client.epoch for client in self.clients} == {group.epoch}
        assert len(group.members) == len(self.clients)
        active = [task for client in self.clients for task in client.owned if task[0] is TaskRole.ACTIVE]
        assert sorted(active) == sorted((TaskRole.ACTIVE, name, index) for name in "01" for index in range(4))


@examples(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=60), st.sampled_from((0, 1_000)), st.sampled_from((0, 500)), st.integers(0, 2))
def test_a_task_is_active_once_and_all_settles(
    steps: list[tuple[object, ...]], interval_ms: int, delay_ms: int, standbys: int
) -> None:
    world = World(interval_ms, delay_ms, standbys)
    for step in steps:
        world.take(step)
    world.check_settled()
