"""The processor time that RocketMQ's messages cost a node: `python -m bench rocketmq-path`.

Strategy: one connection with 64 unanswered sends, as 64 threads of a Java client make it, then pulls of 32 messages by
one group and by four. User and system time of the node's process are read before and after, and divided by the
messages. The wall clock counts nothing, so other work on the machine hardly matters.

`--other TREE` measures the node of another checkout, too (with an environment of its own in TREE/.venv), in alternating
turns: the version before a change next to the one after it. Each turn starts its nodes anew.
"""

import argparse
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.figures import cpu_seconds
from bench.processes import ReadyProcess
from bench.raw_client import BrokerError, connect
from bench.rocketmq_raw import QUEUES, count_messages, heartbeat, pull_queue, send_frames, send_messages
from bench.targets import hutong_command, scratch_folder
from hutong.wire.rocketmq.command import BINARY, JSON

WINDOW: Final = 64
GROUPS: Final = 4
WARM_UP: Final = 2_000  # messages
_TOPIC: Final = "Path"
_THIS: Final = "this tree"


def main(words: Sequence[str]) -> int:
    options = _arguments(words)
    trees = {_THIS: None, **({"other tree": options.other} if options.other else {})}
    found: dict[str, dict[str, list[float]]] = {}
    for turn in range(options.turns):
        for name in reversed(trees) if turn % 2 else trees:
            with ExitStack() as stack:
                folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
                node = stack.enter_context(_node(folder, trees[name]))
                for row, cost_us in _turn(node, options.messages, options.bytes).items():
                    found.setdefault(row, {}).setdefault(name, []).append(cost_us)
    _print(found, list(trees))
    return 0


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench rocketmq-path", description=__doc__)
    parser.add_argument("--other", type=pathlib.Path, metavar="TREE", help="another checkout to compare with")
    parser.add_argument("--turns", type=int, default=5, help="(default %(default)s)")
    parser.add_argument("--messages", type=int, default=40_000, help="of each row (default %(default)s)")
    parser.add_argument("--bytes", type=int, default=128, help="of each body (default %(default)s)")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    return parser.parse_args(words)


def _node(folder: pathlib.Path, tree: pathlib.Path | None) -> ReadyProcess:
    command = [*hutong_command(folder / "data"), "--rocketmq", "127.0.0.1:0"]
    if tree is not None:
        command[0] = str(tree / ".venv" / "bin" / "hutong")
    return ReadyProcess(command, log_path=str(folder / "node.log"))


def _turn(node: ReadyProcess, count: int, size: int) -> dict[str, float]:
    """Microseconds of the node's processor time for a message, by row."""
    address, pid = node.fields["rocketmq"], int(node.fields["pid"])
    costs: dict[str, float] = {}
    for name, form in (("send, binary header", BINARY), ("send, JSON header", JSON)):
        frames = send_frames(_TOPIC, bytes(size), form)
        for row, window, messages in ((name, WINDOW, count), (f"{name}, one by one", 1, count // 20)):
            with connect(address) as connection:
                send_messages(connection, frames, WARM_UP, window)
                before_s = cpu_seconds(pid)
                send_messages(connection, frames, messages, window)
                costs[row] = (cpu_seconds(pid) - before_s) / messages * 1e6
    for row, groups in (("pull, 1 group", 1), (f"pull, {GROUPS} groups", GROUPS)):
        before_s = cpu_seconds(pid)
        pulled = _pull(address, [f"{groups}-groups-{number}" for number in range(groups)])
        costs[row] = (cpu_seconds(pid) - before_s) / pulled * 1e6
        # All of them by each group, or the node has lost some.
        if pulled < groups * 2 * count:
            raise BrokerError(f"{pulled} messages were pulled by {groups} groups")
    return costs


def _pull(address: str, groups: Sequence[str]) -> int:
    """Pull everything by each group, in turns, pull by pull. Returns the number of messages."""
    pulled = 0
    with ExitStack() as stack:
        connections = {group: stack.enter_context(connect(address)) for group in groups}
        for group, connection in connections.items():
            heartbeat(connection, group, _TOPIC)
        for queue in range(QUEUES):
            pulls = [pull_queue(connection, group, _TOPIC, queue) for group, connection in connections.items()]
            while pulls:
                bodies = [next(pull, None) for pull in pulls]
                pulled += sum(count_messages(body) for body in bodies if body is not None)
                pulls = [pull for pull, body in zip(pulls, bodies, strict=True) if body is not None]
    return pulled


def _print(found: Mapping[str, Mapping[str, Sequence[float]]], names: Sequence[str]) -> None:
    table = Table(title="Processor time of a node, us for a message: medians of the turns", title_justify="left")
    table.add_column("row")
    for name in names:
        table.add_column(name, justify="right")
    if len(names) > 1:
        table.add_column("of the other's", justify="right")
    for row, by_name in found.items():
        medians = [statistics.median(by_name[name]) for name in names]
        ratio = [f"{medians[0] / medians[1]:.2f}"] if len(names) > 1 else []
        table.add_row(row, *[f"{median:.1f}" for median in medians], *ratio)
    Console(width=None if Console().is_terminal else 120).print(table)
