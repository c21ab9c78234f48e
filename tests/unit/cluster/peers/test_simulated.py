"""Networks in the simulator: virtual time, crashes, cuts and stopped processes; two runs of a seed are the same."""

from tests.unit.cluster.peers.scene import SECRET, News

from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.limits import HEARTBEAT_MS
from hutong.cluster.peers.network import PeerNetwork
from hutong.foundation.timers import TimerWheel
from hutong.replication.replica_messages import ChunksShipped, CommitTold, ReplicaMessage
from hutong.runtime.loops.timers import LoopTimers
from hutong.testing.simulation.hosts.host import SimHost, SimProcess
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.world import World

SECOND_US = 1_000_000
PORT = 9_190


class SimPeer:
    """A network on a host of its own, and its listener: notes news with the seconds since the start."""

    def __init__(self, scene: "SimPeers", node: int) -> None:
        self.scene = scene
        self.node = node
        self.host = SimHost(scene.world, scene.network, f"node{node}", f"127.9.0.{node}")
        self.lives = 0
        self.news: list[News] = []
        self.messages: list[ReplicaMessage] = []

    @property
    def incarnation(self) -> int:
        return 100 * self.node + self.lives

    @property
    def process(self) -> SimProcess:
        assert self.host.process is not None
        return self.host.process

    def start(self) -> None:
        self.lives += 1
        self.news, self.messages = [], []
        process = self.host.start()
        self.peers = peers = PeerNetwork(
            process.loop,
            clock=process.clock,
            wheel=(wheel := TimerWheel(process.clock.monotonic_ms())),
            identity=PeerIdentity("simulated", self.node, self.incarnation),
            secret=SECRET,
            listener=self,
            open_socket=self.scene.network.socket_of(process),
            chance=process.host.random.random,
            random_bytes=process.random_bytes,
        )
        LoopTimers(process.loop, wheel, process.clock)
        process.run(lambda: peers.listen(self.host.address, PORT))

    def link_opened(self, node: int, incarnation: int) -> None:
        self.news.append(("opened", node, incarnation))

    def link_closed(self, node: int, *, is_process_gone: bool) -> None:
        self.news.append(("closed", node, is_process_gone))

    def replica_told(self, _: int, message: ReplicaMessage) -> None:
        self.messages.append(message)


class SimPeers:
    """Nodes 1 and up, all registered."""

    def __init__(self, count: int = 2, seed: int = 1) -> None:
        self.world = World(seed)
        self.network = SimNetwork(self.world)
        self.nodes = [SimPeer(self, number) for number in range(1, count + 1)]
        for node in self.nodes:
            node.start()
        self.register()
        self.pass_seconds(2)

    def register(self) -> None:
        for node in self.nodes:
            if node.host.process is not None:
                addresses = {each.node: (each.host.address, PORT, each.incarnation) for each in self.nodes}
                node.process.loop.call_soon(node.peers.set_addresses, addresses)

    def pass_seconds(self, seconds: float) -> None:
        self.world.run(self.world.now_us + int(seconds * SECOND_US))
        assert [failure for node in self.nodes for failure in node.host.failures] == []


def test_nodes_link_and_tell_each_other() -> None:
    scene = SimPeers(3)
    one, two, three = scene.nodes
    assert sorted(one.news) == [("opened", 2, 201), ("opened", 3, 301)]
    sent: list[ReplicaMessage] = [ChunksShipped("days", 1, at, 0, bytes(at)) for at in range(0, 200_000, 9_973)]
    for message in sent:
        one.process.loop.call_soon(one.peers.send, 3, message)
        three.process.loop.call_soon(three.peers.send, 2, message)
    scene.pass_seconds(2)
    assert three.messages == two.messages == sent


def test_heartbeats_keep_a_link_and_measure_it() -> None:
    scene = SimPeers()
    one, two = scene.nodes
    scene.pass_seconds(60)
    assert one.news == [("opened", 2, 201)]
    assert one.peers.is_open(2)
    heard_ms = one.peers.heard_ms(2)
    assert heard_ms is not None
    assert one.process.clock.monotonic_ms() - heard_ms <= HEARTBEAT_MS
    assert 200 <= (two.peers.figures[1].round_trip_us or 0) <= 20_000
    assert one.peers.heard_ms(3) is None


def test_a_process_that_is_killed_is_known_to_be_gone() -> None:
    for killed, left in ((0, 1), (1, 0)):
        scene = SimPeers()
        gone, other = scene.nodes[killed], scene.nodes[left]
        gone.host.kill()
        scene.pass_seconds(0.1)
        assert other.news[1:] == [("closed", gone.node, False), ("closed", gone.node, True)]
        gone.start()
        scene.register()
        scene.pass_seconds(2)
        assert other.news[3:] == [("opened", gone.node, gone.incarnation)]
        assert gone.peers.is_open(other.node)


def test_a_machine_without_power_is_silent() -> None:
    scene = SimPeers()
    one, two = scene.nodes
    two.host.kill(with_power=True)
    scene.pass_seconds(2.5)
    assert one.peers.is_open(2)
    scene.pass_seconds(1.5)
    assert one.news[1] == ("closed", 2, False)
    two.start()
    scene.register()
    scene.pass_seconds(15)
    assert one.news[-1] == ("opened", 2, 202)


def test_a_stopped_process_is_silent_and_not_gone() -> None:
    for stopped, left in ((0, 1), (1, 0)):
        scene = SimPeers()
        still, other = scene.nodes[stopped], scene.nodes[left]
        still.process.stop_until(scene.world.now_us + 20 * SECOND_US)
        scene.pass_seconds(19)
        assert other.news[1:] == [("closed", still.node, False)]
        scene.pass_seconds(10)
        assert other.news[2:] == [("opened", still.node, still.incarnation)]
        assert still.peers.is_open(other.node)


def test_processes_that_were_all_stopped_keep_their_links() -> None:
    scene = SimPeers()
    for node in scene.nodes:
        node.process.stop_until(scene.world.now_us + 5 * SECOND_US)
    scene.pass_seconds(10)
    for node in scene.nodes:
        assert len(node.news) == 1


def test_a_cut_is_silent_on_both_sides_and_mended() -> None:
    for both in (True, False):
        scene = SimPeers()
        one, two = scene.nodes
        scene.network.cut("node1", "node2")
        if both:
            scene.network.cut("node2", "node1")
        for number in range(10):
            one.process.loop.call_soon(one.peers.send, 2, CommitTold("days", 1, number))
        scene.pass_seconds(8)
        assert ("closed", 2, True) not in one.news
        assert ("closed", 2, False) in one.news
        assert ("closed", 1, False) in two.news
        scene.network.mend("node1", "node2")
        scene.network.mend("node2", "node1")
        scene.pass_seconds(15)
        assert one.news[-1] == ("opened", 2, 201)
        assert two.news[-1] == ("opened", 1, 101)
        # A message of the link before never arrives on the next one.
        assert two.messages == []


def test_two_runs_of_a_seed_are_the_same() -> None:
    hashes = []
    for _ in range(2):
        scene = SimPeers(3, seed=7)
        scene.nodes[1].host.kill()
        scene.pass_seconds(3)
        scene.nodes[1].start()
        scene.register()
        scene.pass_seconds(3)
        hashes.append(scene.world.trace_hash)
    assert hashes[0] == hashes[1]
