"""The live table of `hutong cluster dev`: each node, what it leads, and what it is behind with.

Strategy: a thread of its own asks for the status, by way of the nodes that are up, since an answer may take as long as
an election. What is shown is the newest answer, with the states of the processes as they are now. Where standard output
is no terminal nothing is shown.

Knows nothing of how nodes are started.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from hutong.cli.cluster.operations import status_of
from hutong.cluster.controller.commands import ControllerStatus, GroupProgress
from hutong.foundation.errors import HutongError

if TYPE_CHECKING:
    from hutong.cli.cluster.supervisor import ChildNode

ASK_SECONDS: Final = 1.0
DRAWINGS_PER_SECOND: Final = 4
_STYLES: Final = {"up": "green", "down": "red", "paused": "yellow", "cut off": "yellow"}


def table_of(states: Mapping[int, str], status: ControllerStatus | None) -> Group:
    """The table, from the states of the processes in a word, and the newest answer of a controller."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("node", "state", "leads", "behind with"):
        table.add_column(column, no_wrap=column in ("node", "state"))
    groups = () if status is None else status.groups
    for node, state in sorted(states.items()):
        leads = [each.name for each in groups if each.leader == node]
        behind = [each.name for each in groups if node in each.replicas and node not in each.in_sync]
        table.add_row(Text(str(node)), Text(state, _STYLES[state]), _listed(leads), _listed(behind))
    return Group(table, _remark(groups) if status is not None else Text("no controller has answered yet"))


def _listed(names: Sequence[str]) -> Text:
    return Text(", ".join(names) or "-")


def _remark(groups: Sequence[GroupProgress]) -> Text:
    leaderless = [each.name for each in groups if each.leader < 0]
    if leaderless:
        return Text(f"without a leader: {', '.join(leaderless)}", "red")
    lacking = sum(len(each.in_sync) < len(each.replicas) for each in groups)
    return Text(
        f"{len(groups)} groups, {lacking} lack replicas in sync" if lacking else f"{len(groups)} groups in sync"
    )


class StatusLooks:
    """Asks every second from `start` to `end`, in a thread that a process need not wait for."""

    def __init__(self, ask: Callable[[], ControllerStatus]) -> None:
        self.newest: ControllerStatus | None = None
        self._ask = ask
        self._is_over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="status", daemon=True).start()

    def end(self) -> None:
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.is_set():
            # Between two controllers there is no answer; the next look may find one.
            with suppress(HutongError):
                self.newest = self._ask()
            self._is_over.wait(ASK_SECONDS)


@contextmanager
def shown(nodes: Mapping[int, "ChildNode"]) -> Iterator[None]:
    """Show the table while the context is open, on a terminal."""
    if not sys.stdout.isatty():
        yield
        return
    from rich.live import Live

    def ask() -> ControllerStatus:
        return status_of(",".join(each.kafka for each in nodes.values() if each.state == "up"))

    looks = StatusLooks(ask)
    looks.start()
    try:
        with Live(
            get_renderable=lambda: table_of({n: each.state for n, each in nodes.items()}, looks.newest),
            refresh_per_second=DRAWINGS_PER_SECOND,
        ):
            yield
    finally:
        looks.end()
