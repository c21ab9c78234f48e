"""A group whose members join, leave, are killed and are paused, by a seed; and what their journals say of it.

Strategy: so many seats, each taken by one process at a time (`churn_member`) with a library and settings of its own.
One step of the churn chooses a seat and what happens there. A static seat keeps its identity: who sits down there takes
over from who sat there before, also from one that is only paused, which finds itself fenced. In the end all seats are
taken by members that are let be, until the group has committed all there is; then they leave, and the journals are
judged together.

Knows nothing of what is promised: `log_checker` judges.
"""

import pathlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from tests.support.log_checker import History, Share
from tests.support.waiting import until

LEAVE_DEADLINE_S: Final = 40.0
STEP_S: Final = 0.3  # between two events, on average
SETTLE_DEADLINE_S: Final = 120.0


@dataclass(frozen=True)
class Kind:
    """The kinds of members of a seat."""

    library: str
    settings: Mapping[str, str]
    is_static: bool = False


@dataclass
class Member:
    """One process that sits, or sat, on a seat."""

    journal: pathlib.Path
    process: "subprocess.Popen[bytes]"
    label: str
    paused_until_s: float = 0.0
    was_killed: bool = False


@dataclass
class Seat:
    number: int
    kind: Kind
    member: Member | None = None
    replaced: list[Member] = field(default_factory=list)  # paused when somebody else took their identity


class Churn:
    """The seats of one group, and everybody who ever sat there."""

    def __init__(
        self, folder: pathlib.Path, bootstrap: str, group: str, topic: str, kinds: Sequence[Kind], seed: int
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.group = group
        self.events: dict[str, int] = {}
        self._folder = folder
        self._bootstrap = bootstrap
        self._topic = topic
        self._random = random.Random(seed)
        self._seats = [Seat(number, kind) for number, kind in enumerate(kinds)]
        self._everybody: list[Member] = []

    def run(self, seconds: float) -> None:
        """Everybody joins, then one event after the other."""
        for seat in self._seats:
            self._join(seat)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            time.sleep(self._random.uniform(0.5, 1.5) * STEP_S)
            self._resume_due()
            self._step(self._random.choice(self._seats))

    def settle(self, ends: Mapping[int, int]) -> None:
        """Everybody there and awake, until everything before `ends` (by partition) is committed."""
        for seat in self._seats:
            self._wake(seat)
            if seat.member is None or seat.member.process.poll() is not None:
                self._join(seat)
        try:
            until(lambda: self.committed(ends) == ends, deadline_s=SETTLE_DEADLINE_S, between_s=0.2, what="all commits")
        except AssertionError as error:
            error.add_note(f"committed: {self.committed(ends)}, ends: {dict(ends)}; {self.portrait()}")
            raise

    def leave(self) -> None:
        """Everybody leaves politely. Raises AssertionError if one does not, or has ended by a fault."""
        for member in self._everybody:  # of two with one identity, either may be the one that was fenced
            if member.process.poll() is None:
                member.process.terminate()
        for member in self._everybody:
            if not member.was_killed:
                status = member.process.wait(LEAVE_DEADLINE_S)
                was_early = status == -signal.SIGTERM and not member.journal.exists()  # it had not even begun
                assert status == 0 or was_early, (
                    f"{member.label}: {status}, {_tail(member.journal.with_suffix('.err'))}"
                )

    def close(self) -> None:
        """Nobody is left behind, whatever happened."""
        for member in self._everybody:
            if member.process.poll() is None:
                member.process.kill()
                member.process.wait()

    def committed(self, ends: Mapping[int, int]) -> dict[int, int]:
        asker = Consumer({"bootstrap.servers": self._bootstrap, "group.id": self.group})
        try:
            places = asker.committed([TopicPartition(self._topic, partition) for partition in ends], 10)
            return {place.partition: place.offset for place in places}
        finally:
            asker.close()

    def history(self) -> tuple[History, list[str]]:
        """The content of all journals together, with the faults that members saw or that their times show."""
        history, wrong = History(), list[str]()
        begins, commits = list[_Timed](), list[_Timed]()
        for member in self._everybody:
            for line in member.journal.read_text().splitlines() if member.journal.exists() else ():
                what, *words = line.split()
                if what == "begin":
                    begins.append((int(words[0]), int(words[1]), int(words[2])))
                elif what == "committed":
                    commits.append((int(words[0]), int(words[1]), int(words[2])))
                    history.commit(self.group, (self._topic, int(words[1])), int(words[2]))
                elif what == "gap":
                    wrong.append(f"{member.label}: {line}")
                else:
                    self._tell(history, member, what, words)
        return history, wrong + _begun_before_commits(begins, commits)

    def share(self, partition: int) -> Share:
        return self.group, (self._topic, partition)

    def portrait(self) -> str:
        """The members and their deeds, for a message."""
        return f"{self.events}; " + "; ".join(
            f"{member.label}: {_tail(member.journal, 2)}" for member in self._everybody[-len(self._seats) :]
        )

    def _step(self, seat: Seat) -> None:
        member = seat.member
        if member is None or member.process.poll() is not None:
            self._note("join")
            self._join(seat)
            return
        if member.paused_until_s:
            if seat.kind.is_static:
                self._note("replace")
                seat.replaced.append(member)
                self._join(seat)
            return
        what = self._random.choice(["leave", "kill", "kill", "pause"])
        self._note(what)
        if what == "leave":
            member.process.terminate()  # it is found ended, or still ending, by the next step here
        elif what == "kill":
            member.was_killed = True
            member.process.kill()
            member.process.wait()
        else:
            member.process.send_signal(signal.SIGSTOP)
            member.paused_until_s = time.monotonic() + self._random.uniform(0.3, 4.0)

    def _join(self, seat: Seat) -> None:
        label = f"seat-{seat.number}-{len(self._everybody)}"
        settings = dict(seat.kind.settings)
        if seat.kind.is_static:
            label = settings["group.instance.id"] = f"seat-{seat.number}"
        journal = self._folder / f"{len(self._everybody)}.journal"
        with open(journal.with_suffix(".err"), "wb") as errors:
            process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "tests.support.churn_member", str(journal), seat.kind.library),
                    *(self._bootstrap, self.group, self._topic),
                    *(f"{name}={value}" for name, value in settings.items()),
                ],
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )
        seat.member = Member(journal, process, label)
        self._everybody.append(seat.member)

    def _resume_due(self) -> None:
        for seat in self._seats:
            if seat.member is not None and 0 < seat.member.paused_until_s < time.monotonic():
                self._wake(seat)

    def _wake(self, seat: Seat) -> None:
        sleepers = [*seat.replaced, seat.member] if seat.member is not None else []
        seat.replaced = []
        for member in sleepers:
            if member.paused_until_s and member.process.poll() is None:
                member.process.send_signal(signal.SIGCONT)
            member.paused_until_s = 0.0

    def _note(self, what: str) -> None:
        self.events[what] = self.events.get(what, 0) + 1

    def _tell(self, history: History, member: Member, what: str, words: list[str]) -> None:
        if what == "own":
            for partition in words[2].split(",") if len(words) > 2 else ():
                history.own(self.group, int(words[1]), (self._topic, int(partition)), member.label)
        elif what == "done":
            place, first, last = map(int, words)
            history.processed[self.share(place)].update(range(first, last + 1))


_Timed = tuple[int, int, int]  # when, which partition, which offset


def _begun_before_commits(begins: list[_Timed], commits: list[_Timed]) -> list[str]:
    """Owners who began before what had been committed when they were told: a late commit of another took it back."""
    wrong, committed = [], dict[int, int]()
    events = sorted([(*begin, True) for begin in begins] + [(*commit, False) for commit in commits])
    for _, partition, offset, is_begin in events:
        known = committed.get(partition, 0)
        if is_begin and offset < known:
            wrong.append(f"partition {partition}: {known} was committed, then somebody began at {offset}")
        elif not is_begin:
            committed[partition] = max(known, offset)
    return wrong


def _tail(path: pathlib.Path, lines: int = 20) -> str:
    return " | ".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""
