"""A node in a process of its own whose disk fails as a test tells it to, while it runs.

Strategy: this file is also the program that is started: `hutong serve` with a disk of `hutong.testing` put in by its
constructor. The plan lies in a control file, which the test replaces whole; the disk looks whether it has changed
before each call, so a new plan holds from the moment `plan` returns. The product has no setting for any of this.

`tests.support.node` is imported by the test's side only.
"""

import json
import os
import pathlib
import sys
import time
from typing import TYPE_CHECKING, Any

from hutong.cli.node import serve
from hutong.foundation.errors import HutongError
from hutong.journal.files.disk import RealDisk
from hutong.server.broker.system_ports import SystemPorts
from hutong.testing.disks.faults import DiskFault, FaultPlan
from hutong.testing.disks.faulty import FaultyDisk

if TYPE_CHECKING:
    from tests.support.node import Node


LOOK_S = 0.01


class ControlledPlan(FaultPlan):
    """The plan in a control file."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(sleep=self._wait)
        self._path = path
        self._seen: tuple[int, int] | None = None

    def strike(self, operation: str, path: pathlib.Path) -> DiskFault | None:
        status = os.stat(self._path)
        seen = (status.st_ino, status.st_mtime_ns)
        if seen != self._seen:
            self._seen = seen
            self.replace([DiskFault(**fault) for fault in json.loads(self._path.read_text())])
        return super().strike(operation, path)

    def _wait(self, seconds: float) -> None:
        """A stall of the disk, which a new plan ends."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and os.stat(self._path).st_ino == (self._seen or (0,))[0]:
            time.sleep(LOOK_S)


def faulty_node(folder: pathlib.Path, *settings: str) -> "tuple[Node, Control]":
    """A node that is not started yet, and the control of its disk."""
    from tests.support.node import Node

    control = Control(folder / "faults.json")
    control.heal()

    class FaultyNode(Node):
        def _command(self) -> list[str]:
            _, _, *options = super()._command()
            return [sys.executable, __file__, str(control.path), *options]

    return FaultyNode(folder, *settings), control


class Control:
    """The test's side of a control file."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._number = 0

    def plan(self, *faults: dict[str, Any]) -> None:
        """These faults and no others, as `hutong.testing.disks.faults.Fault` takes them."""
        self._number += 1
        fresh = self.path.with_suffix(f".{self._number}")  # a new file each time: its inode tells it from the last
        fresh.write_text(json.dumps(faults))
        fresh.replace(self.path)

    def heal(self) -> None:
        self.plan()


def main() -> int:
    control, *options = sys.argv[1:]
    try:
        return serve.serve(options, SystemPorts(disk=FaultyDisk(RealDisk(), ControlledPlan(pathlib.Path(control)))))
    except HutongError as error:
        print(f"hutong: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
