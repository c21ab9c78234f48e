"""`hutong cluster dev`: ZooKeeper and some nodes on this machine, and the faults to try on them while they run."""

import asyncio
import os
import signal
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from hutong.cli.cluster import dev_control
from hutong.cli.cluster.dev_table import shown
from hutong.cli.cluster.supervisor import ChildNode, reserved_port
from hutong.cli.cluster.zookeeper_door import ZooKeeperDoor
from hutong.cli.output import remark
from hutong.foundation.errors import UsageError

HOST: Final = "127.0.0.1"
PATH: Final = "/hutong-dev"
NODES_MAX: Final = 15
KNOWN_TRIES: Final = 100
KNOWN_PAUSE_S: Final = 0.05
VERBS: Final = ("kill", "stop", "start", "pause", "resume", "cut", "heal")

app = typer.Typer(help="A cluster on this machine, to try what happens when nodes die.", invoke_without_command=True)
NodeNumber = Annotated[int, typer.Argument(metavar="NODE", min=1, max=NODES_MAX, show_default=False)]


@app.callback()
def dev(
    context: typer.Context,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=NODES_MAX, help="Number of nodes.")] = 3,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Where the data are; else a temporary folder.")
    ] = None,
    zookeeper: Annotated[
        str | None, typer.Option("--zookeeper", metavar="HOST:PORT", help="One that runs; else one is started.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="Kafka port of the first node; 0: any free ones.")
    ] = 9092,
    rocketmq_port: Annotated[
        int | None,
        typer.Option("--rocketmq-port", min=0, max=65_535, help="RocketMQ port of the first node; 0: any free ones."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ready line as a JSON object.")] = False,
) -> None:
    """Run ZooKeeper and several nodes until Ctrl-C; meanwhile kill, stop, start, pause and cut them by number."""
    if context.invoked_subcommand is None:
        asyncio.run(DevCluster(nodes, data_dir, zookeeper, port, rocketmq_port, as_json=as_json).run())


def _ask(verb: str, node: int, **more: bool) -> None:
    answer = dev_control.ask({"verb": verb, "node": node, **more})
    remark(answer["did"])


@app.command()
def kill(node: NodeNumber) -> None:
    """End a node as kill -9 does."""
    _ask("kill", node)


@app.command()
def stop(node: NodeNumber) -> None:
    """Stop a node as a service manager does: it hands over what it leads."""
    _ask("stop", node)


@app.command()
def start(node: NodeNumber) -> None:
    """Start a node that was killed or stopped."""
    _ask("start", node)


@app.command()
def pause(node: NodeNumber) -> None:
    """Stop the process of a node without ending it (SIGSTOP): nobody hears anything of it."""
    _ask("pause", node)


@app.command()
def resume(node: NodeNumber) -> None:
    """Let a paused node go on."""
    _ask("resume", node)


@app.command()
def cut(
    node: NodeNumber,
    keep_zookeeper: Annotated[
        bool, typer.Option("--keep-zookeeper", help="Leave it ZooKeeper: only the other nodes are out of reach.")
    ] = False,
) -> None:
    """Cut a node off from the other nodes and from ZooKeeper, but not from clients."""
    _ask("cut", node, keep_zookeeper=keep_zookeeper)


@app.command()
def heal(node: Annotated[int, typer.Argument(metavar="[NODE]", min=0, max=NODES_MAX)] = 0) -> None:
    """Undo a cut: of one node, or without a number of all."""
    if node:
        _ask("heal", node)
    else:
        remark(dev_control.ask({"verb": "heal"})["did"])


@app.command()
def end() -> None:
    """End the cluster."""
    remark(dev_control.ask({"verb": "end"})["did"])


class DevCluster:
    """ZooKeeper, and nodes 1 to `nodes`."""

    def __init__(
        self,
        nodes: int,
        data_dir: Path | None,
        zookeeper: str | None,
        port: int,
        rocketmq_port: int | None = None,
        *,
        as_json: bool,
    ) -> None:
        self._count = nodes
        self._data_dir = data_dir
        self._zookeeper = zookeeper
        self._port = port
        self._rocketmq_port = rocketmq_port  # None: no node listens for RocketMQ's clients
        self._rocketmq: list[str] = []
        self._as_json = as_json
        self._nodes: dict[int, ChildNode] = {}
        self._doors: dict[int, ZooKeeperDoor] = {}
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Run it until SIGINT, SIGTERM or the command `end`."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self._over.set)
        async with AsyncExitStack() as exit_stack:
            folder = self._data_dir
            if folder is None:
                folder = Path(exit_stack.enter_context(tempfile.TemporaryDirectory(prefix="hutong-cluster-")))
            # Before anything is started: a second cluster of this user would take the first one's commands.
            await exit_stack.enter_async_context(dev_control.listening(self._obey))
            address = self._zookeeper or await self._start_zookeeper(folder, exit_stack)
            for number in range(1, self._count + 1):
                kafka_port = self._port + number - 1 if self._port else reserved_port(exit_stack)
                door = self._doors[number] = ZooKeeperDoor(address)
                exit_stack.callback(door.close)
                entry = await door.open_port(HOST)
                listen = f"{HOST}:{reserved_port(exit_stack)}"
                arguments = ["--cluster", f"zk://{entry}{PATH}", "--cluster-listen", listen]
                if self._rocketmq_port is not None:
                    first = self._rocketmq_port
                    rocketmq = f"{HOST}:{first + number - 1 if first else reserved_port(exit_stack)}"
                    arguments += ["--rocketmq", rocketmq]
                    self._rocketmq.append(rocketmq)
                self._nodes[number] = ChildNode(number, folder / f"node-{number}", arguments, f"{HOST}:{kafka_port}")
            # After ZooKeeper's, so called before it: nodes that stop cleanly give their registrations back.
            exit_stack.push_async_callback(self._stop_all)
            # The first one founds the cluster; all others join it, side by side.
            starting = asyncio.create_task(self._start_all())
            over = asyncio.create_task(self._ended())
            await asyncio.wait((starting, over), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                self._say_ready(folder)
                with shown(self._nodes):
                    await over
            else:
                starting.cancel()

    async def _start_zookeeper(self, folder: Path, exit_stack: AsyncExitStack) -> str:
        from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper

        server = DevelopmentZooKeeper(folder / "zookeeper", os.environ, reserved_port(exit_stack))
        exit_stack.push_async_callback(asyncio.to_thread, server.stop)  # also of a start that fails half way
        await asyncio.to_thread(server.start)
        return server.address

    def _say_ready(self, folder: Path) -> None:
        from hutong.cli.node.serve import ready_line

        bootstrap = ",".join(each.kafka for each in self._nodes.values())
        # As RocketMQ's clients take a list of name servers.
        rocketmq = ";".join(self._rocketmq) or None
        addresses = {"kafka": bootstrap, "rocketmq": rocketmq, "data": str(folder)}
        typer.echo(ready_line(addresses, os.getpid(), as_json=self._as_json))
        if not self._as_json:
            remark("Try `hutong cluster dev kill 2` and `hutong cluster status` in another terminal; Ctrl-C ends all.")

    async def _ended(self) -> None:
        await self._over.wait()

    async def _start_all(self) -> None:
        await asyncio.gather(*(each.start() for each in self._nodes.values()))
        await asyncio.to_thread(self._wait_until_known)

    def _wait_until_known(self) -> None:
        """Wait until each node names all of them: a client may ask any one first."""
        from hutong.cli.kafka import client

        for each in self._nodes.values():
            admin = client.admin(each.kafka)
            for _ in range(KNOWN_TRIES):
                if len(admin.list_topics(timeout=client.REQUEST_TIMEOUT_SECONDS).brokers) == self._count:
                    break
                time.sleep(KNOWN_PAUSE_S)

    async def _stop_all(self) -> None:
        await asyncio.gather(*(each.stop() for each in self._nodes.values()))

    async def _obey(self, asked: dict[str, Any]) -> dict[str, Any]:
        verb = asked.get("verb")
        if verb == "end":
            self._over.set()
            return {"did": "The cluster is ending."}
        if verb == "heal" and "node" not in asked:
            for each in self._nodes.values():
                self._heal(each)
            return {"did": "All nodes reach each other."}
        node = self._nodes.get(asked.get("node", 0))
        if node is None or verb not in VERBS:
            return {"error": f"There are nodes 1 to {self._count}"}
        try:
            did = await self._change(node, str(verb), is_zookeeper_kept=bool(asked.get("keep_zookeeper")))
        except UsageError as error:
            return {"error": str(error).rstrip(".")}
        return {"did": f"Node {node.number} {did}."}

    async def _change(self, node: ChildNode, verb: str, *, is_zookeeper_kept: bool) -> str:
        if verb == "start":
            if node.is_running:
                return "is up already"
            # A cut belongs to a process, and the next one would not get into its cluster.
            self._heal(node)
            await node.start()
            return "is up"
        if not node.is_running:
            return "is down already"
        if verb == "kill":
            await node.kill()
            return "was killed"
        if verb == "stop":
            await node.stop()
            return "has stopped"
        if verb == "pause":
            node.pause()
            return "is paused"
        if verb == "cut":
            node.cut()
            if not is_zookeeper_kept:
                self._doors[node.number].shut()
            return "is cut off"
        if verb == "heal":
            self._heal(node)
            return "reaches the others"
        node.resume()
        return "goes on"

    def _heal(self, node: ChildNode) -> None:
        node.heal()
        self._doors[node.number].open_again()
