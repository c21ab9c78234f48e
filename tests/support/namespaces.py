"""Network namespaces on one bridge, and faults of the wires between them: cuts, one-way cuts, delay, loss.

Strategy: `ip` alone. A cut takes an end of a wire from the bridge. A one-way cut is a neighbour entry that leads to no
machine, so packets to one address vanish without an error. A slow wire passes through `slow_wire`.

Everything is named after this process, and is removed on leaving. Skips where it cannot be done. Knows no programs.
"""

import os
import shutil
import subprocess
import sys
from types import TracebackType
from typing import Final, Self

import pytest
from bench.processes import ReadyProcess

NOWHERE: Final = "02:00:00:00:00:01"


class Namespaces:
    """`with Namespaces(("a", "b"), log) as network`; each has an address, and this process has one, too."""

    def __init__(self, names: tuple[str, ...], log: str) -> None:
        if os.geteuid() != 0 or not shutil.which("ip"):
            pytest.skip("network namespaces need root, and the command ip")
        self._tag = f"h{os.getpid() % 100_000:x}"
        self._net = f"10.{64 + os.getpid() // 250 % 64}.{os.getpid() % 250}"
        self._names = names
        self._log = log
        self._slow: dict[str, ReadyProcess] = {}

    def address(self, name: str) -> str:
        return f"{self._net}.{1 + self._names.index(name)}"

    def prefix(self, name: str) -> tuple[str, ...]:
        """The words that run a command there. The process is the command's own."""
        return "ip", "netns", "exec", self._space(name)

    def cut(self, name: str) -> None:
        """Cut it off from everybody, without anybody being told."""
        _ip("link", "set", self._wire(name), "nomaster")

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """Let what one sends never come to the other; what the other sends comes."""
        to = self.address(receiver)
        _ip("-n", self._space(sender), "neigh", "replace", to, "lladdr", NOWHERE, "dev", "eth0", "nud", "permanent")

    def slow(self, name: str, *, delay_ms: float = 0, loss: float = 0, seed: int = 0) -> None:
        """Let all that comes and goes take its time, and lose a part of the packets."""
        wire = self._wire(name)
        near, far = f"{wire}x", f"{wire}y"
        _ip("link", "add", near, "type", "veth", "peer", "name", far)
        _ip("link", "set", far, "master", self._bridge, "up")
        _ip("link", "set", near, "up")
        _ip("link", "set", wire, "nomaster")
        words = [sys.executable, "-m", "tests.support.slow_wire", wire, near, str(delay_ms), str(loss), str(seed)]
        self._slow[name] = ReadyProcess(words, log_path=self._log).start()

    def heal(self, name: str) -> None:
        """Undo everything that was done to its wire and to what it sends."""
        if name in self._slow:
            self._slow.pop(name).kill()
            _ip("link", "del", f"{self._wire(name)}x")
        _ip("link", "set", self._wire(name), "master", self._bridge)
        _ip("-n", self._space(name), "neigh", "flush", "dev", "eth0", "nud", "permanent")

    def __enter__(self) -> Self:
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no bridges here: {error.stderr.strip()}")
        try:
            _ip("addr", "add", f"{self._net}.254/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for name in self._names:
                self._add(name)
        except subprocess.CalledProcessError as error:
            self.close()
            pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for process in self._slow.values():
            process.kill()
        for name in self._names:
            # The wire first: a namespace takes its end along some time later, when the next one may want the name.
            wire = self._wire(name)
            for words in (("link", "del", wire), ("netns", "del", self._space(name)), ("link", "del", f"{wire}x")):
                subprocess.run(["ip", *words], check=False, capture_output=True)
        _ip("link", "del", self._bridge)

    def _add(self, name: str) -> None:
        space, wire = self._space(name), self._wire(name)
        _ip("netns", "add", space)
        _ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", wire, "master", self._bridge, "up")
        _ip("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "link", "set", "lo", "up")

    @property
    def _bridge(self) -> str:
        return f"{self._tag}br"

    def _wire(self, name: str) -> str:
        return f"{self._tag}v{self._names.index(name)}"

    def _space(self, name: str) -> str:
        return f"{self._tag}-{name}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
