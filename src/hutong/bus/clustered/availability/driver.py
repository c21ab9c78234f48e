"""High availability of one node: reads the entries of all, writes its own, deploys and undeploys what the machine says.

Strategy: one task reads and writes, one thing after the other, so what was read is never older than what was written.
Each reading watches everything anew, and any news leads to the next one. Verticles are deployed in the context of this
part, as its children, so they end before it.

Decides nothing.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import UUID

from hutong.bus.clustered.availability import messages
from hutong.bus.clustered.availability.entries import (
    MAP,
    VERTICLE_BYTES_MAX,
    VERTICLES_MAX,
    HaVerticle,
    NodeEntry,
    bytes_of,
    decode_entry,
    encode_entry,
    path_of,
)
from hutong.bus.clustered.availability.loading import load, name_of, options_from_json, options_to_json
from hutong.bus.clustered.availability.machine import AvailabilityMachine, VerticleState
from hutong.bus.clustered.figures import AvailabilityFigures
from hutong.bus.clustered.membership.port import NODES_MAX
from hutong.bus.shared.port import Change, CreateEntry, EntryStore, RemoveEntry, WriteEntry
from hutong.foundation.errors import (
    CoordinatorUnavailable,
    LimitExceeded,
    OwnerGone,
    ProtocolError,
    UsageError,
)
from hutong.runtime.contexts.contexts import Context
from hutong.runtime.runtime import Runtime
from hutong.runtime.verticles import Deployment, DeploymentOptions, Verticle

AGAIN_S: Final = 0.5
"""To the next attempt where ZooKeeper is not reached, and where another node was faster."""
NODES: Final = "cluster/nodes"
_log = logging.getLogger("hutong.bus")


class Availability:
    """`start` once, then `close` once, on the runtime's first loop, which `context` is on. So is everything else."""

    def __init__(
        self,
        node: str,
        group: str,
        quorum: int,
        *,
        runtime: Runtime,
        context: Context,
        entries: EntryStore,
        random: Random,
    ) -> None:
        self.machine = AvailabilityMachine(node, group, quorum)
        self._node = node
        self._group = group
        self._runtime = runtime
        self._context = context
        self._store = entries
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._deployments: dict[str, Deployment] = {}  # those that run, by the verticle's id
        self._ids: dict[Deployment, str] = {}  # of every deployment of a verticle that is still this node's
        self._deploying: dict[str, asyncio.Future[Deployment]] = {}
        self._undeploying: dict[str, list[asyncio.Future[None]]] = {}
        self._failures: dict[str, Exception] = {}
        self._operation: messages.WriteOwn | messages.TakeOver | None = None
        self._is_reading_due = True
        self._failovers_total = 0
        self._unreadable: set[str] = set()  # nodes whose entries were warned of
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def figures(self) -> AvailabilityFigures:
        """The figures of this moment, with each state a verticle can have."""
        counts = Counter(self.machine.states.values())
        verticles = {state.value: counts[state] for state in VerticleState}
        return AvailabilityFigures(self.machine.has_quorum, verticles, self._failovers_total)

    def start(self) -> None:
        """Take part from now on."""
        self._store.add_loss_hook(self._cut_off)
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._ended)

    def leave(self) -> None:
        """Take nothing over any more: the node is about to close."""
        self._feed(messages.Leaving())

    async def close(self) -> None:
        """Remove the entry of this node: what it ran is taken over by nobody. Its verticles have ended already."""
        self.leave()
        self._store.remove_loss_hook(self._cut_off)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self._store.remove(path_of(self._node))
        except (CoordinatorUnavailable, OwnerGone) as error:
            _log.warning("The entry of this node stays, so others take its verticles over: %s", error)
        for future in self._deploying.values():
            _fail(future, OwnerGone("this node has left the cluster"))

    # -- what a program asks for

    async def deploy(self, make: Callable[[], Verticle], options: DeploymentOptions) -> Deployment:
        """Deploy it here once there is a quorum, and then on whichever node takes over.

        Raises UsageError, LimitExceeded, and what its start raises.
        """
        verticle = self._verticle_of(make, options)
        future: asyncio.Future[Deployment] = self._loop.create_future()
        self._deploying[verticle.id] = future
        self._feed(messages.DeployAsked(verticle))
        return await future

    def has(self, deployment: Deployment) -> bool:
        """True for a deployment of a verticle that is this node's, also for an earlier one."""
        return deployment in self._ids

    async def undeploy(self, deployment: Deployment) -> None:
        """Undeploy it everywhere. Raises what its `stop` raises."""
        id = self._ids[deployment]
        future: asyncio.Future[None] = self._loop.create_future()
        self._undeploying.setdefault(id, []).append(future)
        self._feed(messages.UndeployAsked(id))
        await future

    def _verticle_of(self, make: Callable[[], Verticle], options: DeploymentOptions) -> HaVerticle:
        # Those taken over count, too: all of them are in one entry.
        if len(self.machine.states) >= VERTICLES_MAX:
            raise LimitExceeded("verticles_max", VERTICLES_MAX)
        id = str(UUID(int=self._random.getrandbits(128), version=4))
        verticle = HaVerticle(id, name_of(make), options_to_json(options))
        try:
            size = bytes_of(verticle)
            # Otherwise the other node would get another config than this one.
            is_same = json.loads(json.dumps(verticle.options)) == verticle.options
        except (TypeError, ValueError) as error:
            raise UsageError(f"the config of a verticle with ha=True must be JSON: {error}") from None
        if not is_same:
            raise UsageError(
                "the config of a verticle with ha=True must be JSON: it has a tuple, or keys of other types"
            )
        if size > VERTICLE_BYTES_MAX:
            raise LimitExceeded("verticle_bytes_max", VERTICLE_BYTES_MAX)
        return verticle

    # -- the machine

    def _feed(self, event: messages.Event) -> None:
        for instruction in self.machine.handle(event):
            self._carry_out(instruction)

    def _carry_out(self, instruction: messages.Instruction) -> None:
        match instruction:
            case messages.WriteOwn() | messages.TakeOver():
                self._operation = instruction  # the machine begins no other before it has ended
                self._wake.set()
            case messages.StartVerticle(verticle):
                self._context.run(self._start, verticle)
            case messages.StopVerticle(id, reason):
                _log.info("The verticle %s is undeployed: %s.", self._deployments[id].name, reason)
                self._context.run(self._stop, id)
            case messages.Accept(id):
                self._accept(id)
            case messages.Drop(id):
                self._drop(id)
            case messages.NoteQuorum(is_attained, nodes):
                text = "has its quorum" if is_attained else "has lost its quorum"
                _log.warning("The group %s %s: %d nodes.", self._group, text, nodes)
            case messages.NoteFailover(node, count):
                self._failovers_total += 1
                _log.warning("Node %s has died, and its %d verticles are this node's now.", node, count)
            case messages.NoteNoRoom(node, count):
                _log.error("The %d verticles of the dead node %s are too many for this node.", count, node)

    def _accept(self, id: str) -> None:
        future = self._deploying.pop(id, None)
        deployment = self._deployments.get(id)
        if future is None or future.done():
            return
        # The quorum was lost in between; it is deployed again by itself.
        if deployment is None:
            deployment = next(each for each, of in self._ids.items() if of == id)
        future.set_result(deployment)

    def _drop(self, id: str) -> None:
        failure = self._failures.pop(id, None)
        future = self._deploying.pop(id, None)
        if future is not None:
            _fail(future, failure or RuntimeError("it was undeployed while it started"))
        for waiting in self._undeploying.pop(id, ()):
            # It has ended all the same, and is nobody's any more.
            if failure is not None:
                _fail(waiting, failure)
            elif not waiting.done():
                waiting.set_result(None)
        self._ids = {deployment: of for deployment, of in self._ids.items() if of != id}

    # -- verticles, in the context of this part: so they are its children

    async def _start(self, verticle: HaVerticle) -> None:
        try:
            options = options_from_json(verticle.options)
            # A module may take its time, and the loop has other things to do.
            make = await asyncio.to_thread(load, verticle.name)
            deployment = await self._runtime.deploy(make, options)
        except Exception as error:  # noqa: BLE001  # a supervisor: it is the user's code, and is reported
            # A caller that waits gets it. Otherwise nobody would.
            if verticle.id in self._deploying:
                self._failures[verticle.id] = error
            else:
                _log.error("The verticle %s could not be started here: %s", verticle.name, error, exc_info=error)
            self._feed(messages.VerticleFailed(verticle.id))
            return
        self._deployments[verticle.id] = deployment
        # Earlier ones stay: the program may hold the first, and a lost quorum made the others.
        self._ids[deployment] = verticle.id
        self._feed(messages.VerticleStarted(verticle.id))

    async def _stop(self, id: str) -> None:
        try:
            await self._runtime.undeploy_here(self._deployments.pop(id))
        except Exception as error:  # noqa: BLE001  # a supervisor, as above
            if id in self._undeploying:
                self._failures[id] = error
            else:
                _log.error("A verticle did not stop cleanly: %s", error, exc_info=error)
        self._feed(messages.VerticleStopped(id))

    # -- entries

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        # A fault of ours: this node takes part no more, and somebody must hear of it.
        if error is not None:
            self._context.fail(error)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                if self._operation is not None:
                    await self._operate(self._operation)
                elif self._is_reading_due:
                    await self._read()
            # The watches are set anew by the first reading that succeeds.
            except CoordinatorUnavailable:
                self._look_again()
            # The rights of the session: somebody may give them back.
            except UsageError as error:
                _log.error("%s", error)
                self._look_again()
            if self._operation is None and not self._is_reading_due:
                await self._wake.wait()

    def _look_again(self) -> None:
        """Read after a while."""
        self._is_reading_due = False  # what asks for it meanwhile is served by then
        self._loop.call_later(AGAIN_S, self._news)

    def _news(self) -> None:
        self._is_reading_due = True
        self._wake.set()

    def _cut_off(self) -> None:
        self._feed(messages.CutOff())

    async def _read(self) -> None:
        self._is_reading_due = False
        nodes = await self._store.names(NODES, self._news) or []
        names = await self._store.names(MAP, self._news) or []
        # The names are the keys themselves here, other than in maps that programs share.
        if len(names) > NODES_MAX:
            _log.error("ZooKeeper has %d entries of nodes; %d are read.", len(names), NODES_MAX)
        read = [self._store.read(path_of(name), self._news) for name in names[:NODES_MAX]]
        contents = await asyncio.gather(*read)
        entries: dict[str, tuple[NodeEntry, int]] = {}
        for name, content in zip(names, contents, strict=False):
            # Gone in between.
            if content is not None:
                entries[name] = self._decoded(name, content.content), content.version
        self._unreadable &= entries.keys()
        # Something was decided meanwhile, by what was known before. What was read may then be older than it.
        if self._operation is not None:
            self._is_reading_due = True
            return
        self._feed(messages.ClusterSeen(frozenset(nodes), entries))

    def _decoded(self, name: str, content: bytes) -> NodeEntry:
        """The entry of a node. One that nobody can read is of no group of ours; where it is the own, it is repaired."""
        try:
            return decode_entry(content)
        except ProtocolError as error:
            if name not in self._unreadable:
                self._unreadable.add(name)
                _log.warning("The entry of node %s in ZooKeeper is passed over: %s", name, error)
            return NodeEntry(None, ())

    async def _operate(self, operation: messages.WriteOwn | messages.TakeOver) -> None:
        try:
            event = await self._done(operation)
        except (CoordinatorUnavailable, UsageError):
            self._operation = None
            self._feed(messages.OperationFailed())
            raise
        self._operation = None
        # Another node was faster, or has taken this one for dead: look what is there.
        if isinstance(event, messages.OperationFailed):
            self._look_again()
        # The first entry makes the map, which is watched from the next reading on.
        elif event == messages.OwnWritten(0):
            self._is_reading_due = True
        self._feed(event)

    async def _done(self, operation: messages.WriteOwn | messages.TakeOver) -> messages.Event:
        path = path_of(self._node)
        content = encode_entry(self._node, self._group, operation.verticles)
        match operation:
            case messages.WriteOwn(_, None):
                is_done = await self._store.create(path, content)
                return messages.OwnWritten(0) if is_done else messages.OperationFailed()
            case messages.WriteOwn(_, int(version)):
                is_done = await self._store.write(path, content, version)
                return messages.OwnWritten(version + 1) if is_done else messages.OperationFailed()
            case messages.TakeOver(node, node_version, _, version):
                # To create what is there already fails: so all of it fails where the node has come back.
                present = f"{NODES}/{node}"
                changes: list[Change] = [
                    CreateEntry(present, b""),
                    RemoveEntry(present),
                    RemoveEntry(path_of(node), node_version),
                    WriteEntry(path, content, version),
                ]
                is_done = await self._store.change(changes)
                return messages.NodeTakenOver(version + 1) if is_done else messages.OperationFailed()
        raise AssertionError(operation)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
