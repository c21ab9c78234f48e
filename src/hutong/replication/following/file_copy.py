"""Copying the leader's files into the folder of the own journal, to put them in its place.

    begin ──> FilesAsked ──> FilesListed ──> FilePartAsked ──> FilePartShipped ──> written ──> ... ──> completed
                                                  ^                                   │
                                                  └──────── not faster than allowed ──┘

Strategy: one part at a time, checked, written by a worker, and flushed with its file. Files that are complete stay, so
that a copy that was interrupted goes on where it was. Any trouble ends it: the follower begins again a little later.

Knows nothing of the journal: its owner installs the files.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import CorruptData, HutongError, LimitExceeded
from hutong.foundation.timers import Timer
from hutong.journal.replicate.install import may_be_installed, prepare_files, write_part
from hutong.replication.replica_messages import FilePartAsked, FilePartShipped, FilesAsked, FilesListed, ReplicaMessage
from hutong.replication.replica_ports import ReplicaPorts

FILES_MAX: Final = 1_000_000


class FileCopy:
    """One attempt. Exactly one of `completed`, with position and sizes, and `failed` is called, unless it is ended.

    `copied_bytes` counts what this attempt has got.
    """

    def __init__(
        self,
        group: str,
        epoch: int,
        leader: int,
        directory: Path,
        ports: ReplicaPorts,
        completed: Callable[[int, Mapping[str, int]], None],
        failed: Callable[[str], None],
    ) -> None:
        self._group = group
        self._epoch = epoch
        self._leader = leader
        self._directory = directory
        self._ports = ports
        self._completed = completed
        self._failed = failed
        self._has_ended = False
        self._listing = 0
        self._position = 0
        self._sizes: dict[str, int] = {}
        self._complete: dict[str, int] = {}
        self._missing: list[str] = []
        self._asked: tuple[int, str, int] | None = None
        self._timer: Timer | None = None
        self.copied_bytes = 0

    def begin(self, source: int) -> None:
        """Look at what is complete already, of this source, and ask for the files."""
        self._on_worker(partial(prepare_files, self._ports.disk, self._directory, source), self._prepared)

    def end(self) -> None:
        """Call nobody any more."""
        self._has_ended = True
        self._cancel_timer()

    def told(self, message: ReplicaMessage) -> None:
        """Take the leader's answer."""
        if isinstance(message, FilesListed):
            self._listed(message)
        elif isinstance(message, FilePartShipped) and (message.listing, message.name, message.start) == self._asked:
            self._arrived(message)

    def _prepared(self, complete: dict[str, int]) -> None:
        self._complete = complete
        self._await_answer()
        self._ports.links.send(self._leader, FilesAsked(self._group, self._epoch))

    def _listed(self, message: FilesListed) -> None:
        if self._sizes:  # a list that an earlier attempt has asked for
            return
        try:
            sizes = _parsed(bytes(message.lines))
        except CorruptData as error:
            self._fail(str(error))
            return
        self._listing, self._position, self._sizes = message.listing, message.position, sizes
        self._missing = [name for name, size in reversed(sizes.items()) if self._complete.get(name) != size]
        self._next()

    def _next(self) -> None:
        """Ask for the first part of the next file."""
        if self._missing:
            name = self._missing.pop()
            if self._sizes[name]:
                self._ask(name, 0)
            else:
                self._write(name, 0, b"")  # a segment that begins where the checkpoint is
            return
        self.end()
        self._completed(self._position, self._sizes)

    def _ask(self, name: str, start: int) -> None:
        self._asked = self._listing, name, start
        self._await_answer()
        self._ports.links.send(self._leader, FilePartAsked(self._group, self._epoch, self._listing, name, start))

    def _arrived(self, message: FilePartShipped) -> None:
        name, start, content = message.name, message.start, bytes(message.content)
        self._asked = None
        self._cancel_timer()
        size = self._sizes[name]
        if crc32c(content) != message.checksum or start + len(content) > size or (not content and start < size):
            self._fail(f"the leader has no such part of {name}, or it is damaged")
            return
        self.copied_bytes += len(content)
        self._ports.pace.count(len(content), self._ports.clock.monotonic_ms())
        self._write(name, start, content)

    def _write(self, name: str, start: int, content: bytes) -> None:
        size = self._sizes[name]
        work = partial(write_part, self._ports.disk, self._directory, name, start, content, size)
        self._on_worker(work, lambda _: self._written(name, start + len(content), size))

    def _written(self, name: str, end: int, size: int) -> None:
        go_on = partial(self._ask, name, end) if end < size else self._next
        self._when_due(go_on)

    def _when_due(self, go_on: Callable[[], None]) -> None:
        now_ms = self._ports.clock.monotonic_ms()
        due_ms = self._ports.pace.due_ms(now_ms)
        if due_ms <= now_ms:
            go_on()
        else:
            # Looked at again then: another copy may have come first. And sooner, as the rate may have been altered.
            at_ms = min(due_ms, now_ms + self._ports.settings.paced_look_ms)
            self._timer = self._ports.timers.add(at_ms, partial(self._when_due, go_on))

    # -- waiting

    def _await_answer(self) -> None:
        self._cancel_timer()
        at_ms = self._ports.clock.monotonic_ms() + self._ports.settings.file_answer_ms_max
        self._timer = self._ports.timers.add(at_ms, partial(self._fail, "the leader does not answer"))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_worker(self, work: Callable[[], object], then: Callable[..., None]) -> None:
        def ended(outcome: object) -> None:
            if isinstance(outcome, HutongError):
                self._fail(str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
            elif not self._has_ended:
                then(outcome)

        try:
            self._ports.offload.submit(work, ended)
        except LimitExceeded as error:
            self._fail(str(error))

    def _fail(self, reason: str) -> None:
        if not self._has_ended:
            self.end()
            self._failed(reason)


def _parsed(lines: bytes) -> dict[str, int]:
    """The sizes of the listed files. Raises CorruptData for what no leader sends, and for no files at all."""
    sizes: dict[str, int] = {}
    for line in lines.decode(errors="replace").split("\n")[:FILES_MAX]:
        name, _, size = line.rpartition(" ")
        if not may_be_installed(name) or not (size.isascii() and size.isdecimal()):
            raise CorruptData("the leader has no files to copy just now")
        sizes[name] = int(size)
    return sizes
