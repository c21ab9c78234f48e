"""For all histories of members and disks: one leader a generation, one answer a request, assignments for members.

Clients behave as real ones do (they remember what they were told) but in any order, and any of them may die or restart.
"""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.groups.classic.scene import Scene

from hutong.groups.classic.messages import GroupPersisted, GroupPersistFailed, JoinReply, Leaver, Protocols, SyncReply
from hutong.groups.classic.states import GroupState
from hutong.wire.kafka.error_codes import ErrorCode

CHOICES: tuple[Protocols, ...] = (
    (("range", b"1"), ("sticky", b"1")),
    (("sticky", b"2"), ("range", b"2")),
    (("range", b"3"), ("sticky", b"3")),
)


@dataclass
class Client:
    """The state of one process. Every other one has an instance id."""

    instance: str | None
    member_id: str = ""
    generation_id: int = -1
    leads: tuple[str, ...] = ()  # the members it must assign to, if it leads
    waiting: tuple[int, ...] = ()  # tickets it has not seen answered


class World:
    """Clients around one group, and what must hold between them."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.clients = [Client("instance-0"), Client(None), Client("instance-2"), Client(None)]
        self.leaders: dict[int, str] = {}  # generation -> who was told to assign
        self.synced_for: dict[int, int] = {}  # ticket -> generation

    def step(self, action: str, number: int, amount: int) -> None:
        client = self.clients[number]
        match action:
            case "join":
                self._join(client, CHOICES[amount % len(CHOICES)], knows_id=amount % 2 == 0)
            case "sync":
                self._sync(client)
            case "beat":
                error = self.scene.heartbeat(client.member_id, client.generation_id, client.instance)
                if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                    client.member_id = ""
            case "leave":
                self.scene.leave(Leaver(client.member_id, client.instance if client.member_id else None))
                client.member_id = ""
            case "crash":
                client.member_id, client.generation_id, client.leads, client.waiting = "", -1, (), ()
            case "time":
                self.scene.pass_time(amount * 37)
            case "disk":
                self._disk(fails=amount % 10 == 0)
        self._listen()

    def _join(self, client: Client, protocols: Protocols, knows_id: bool) -> None:
        ticket = self.scene.join(client.member_id, instance=client.instance, protocols=protocols, knows_id=knows_id)
        client.waiting += (ticket,)

    def _sync(self, client: Client) -> None:
        shares = {each: f"{client.generation_id}".encode() for each in (*client.leads, "stranger")}
        ticket = self.scene.sync(client.member_id, shares, generation_id=client.generation_id, instance=client.instance)
        client.waiting += (ticket,)
        self.synced_for[ticket] = client.generation_id

    def _disk(self, fails: bool) -> None:
        scene = self.scene
        if scene.to_persist:
            cause = scene.to_persist.pop(0).cause
            if fails:
                scene.tell(GroupPersistFailed(cause, ErrorCode.COORDINATOR_NOT_AVAILABLE, scene.now_ms))
            else:
                scene.tell(GroupPersisted(cause, scene.now_ms))

    def _listen(self) -> None:
        for client in self.clients:
            answered = [ticket for ticket in client.waiting if not self.scene.waits(ticket)]
            client.waiting = tuple(ticket for ticket in client.waiting if self.scene.waits(ticket))
            for ticket in answered:
                reply = self.scene.answers[ticket]
                if isinstance(reply, JoinReply):
                    self._heard_join(client, reply)
                elif isinstance(reply, SyncReply):
                    self._heard_sync(ticket, reply)

    def _heard_join(self, client: Client, reply: JoinReply) -> None:
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = reply.member_id
        elif reply.error is ErrorCode.NONE:
            client.member_id, client.generation_id = reply.member_id, reply.generation_id
            client.leads = tuple(member_id for member_id, _, _ in reply.members)
            assert bool(client.leads) == (reply.leader_id == reply.member_id)
            if client.leads and not reply.skip_assignment:
                assert self.leaders.setdefault(reply.generation_id, reply.member_id) == reply.member_id
                assert reply.member_id in client.leads
        elif reply.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""

    def _heard_sync(self, ticket: int, reply: SyncReply) -> None:
        if reply.error is ErrorCode.NONE:
            assert reply.assignment in (b"", str(self.synced_for[ticket]).encode())

    def finish(self) -> None:
        """Let everything end: then nobody waits, and nothing is left."""
        scene = self.scene
        scene.persist()
        for _ in range(4):
            scene.pass_time(3_600_000)
            scene.persist()
        self._listen()
        assert scene.asked == scene.answers.keys()
        assert scene.group.state is GroupState.EMPTY
        assert not scene.group.member_table.members
        assert not scene.group.member_table.pending
        assert scene.group.next_tick_ms() is None


actions = st.sampled_from(["join", "join", "join", "sync", "sync", "beat", "leave", "crash", "time", "disk", "disk"])
scripts = st.lists(st.tuples(actions, st.integers(0, 3), st.integers(0, 999)), max_size=120)


@settings(max_examples=300, deadline=None)
@given(scripts)
def test_one_leader_a_generation_one_answer_a_request_shares_for_members_only(
    script: list[tuple[str, int, int]],
) -> None:
    world = World()
    for action, number, amount in script:
        world.step(action, number, amount)
    world.finish()
