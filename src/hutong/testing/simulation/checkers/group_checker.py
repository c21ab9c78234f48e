"""The promises of a group: one owner for a partition, offsets that are not lost, no record passed over.

Strategy: linear in the history. A member that was removed may not know it yet, so two members may believe that they
own a partition. What they may not do is to be heard: after a partition was given to another member, the node accepts
neither a commit nor a heartbeat of the one before. *Given after* is meant in real time: the request whose answer gave
it began after the former owner had heard of its own. Generations say less, as an empty group begins at 1 again: two
owners in one are wrong only while the session of the former cannot be over.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from hutong.testing.simulation.checkers.offset_register import OffsetRegister, OffsetWrite
from hutong.testing.simulation.history import (
    FinalRead,
    Happening,
    MembershipConfirmed,
    OffsetCommitBegun,
    OffsetCommitRefused,
    OffsetCommitted,
    OffsetSeen,
    PartitionsGivenUp,
    PartitionsOwned,
    SimulationHistory,
    ValueRead,
)
from hutong.testing.simulation.history_text import Place

_NEVER = 1 << 62
_SESSION_US_MIN = 1_000_000
"""Shorter than any session that plans have."""


def check_groups(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    return list(_GroupCheck(history.happenings).errors())


@dataclass(frozen=True, slots=True)
class _Grant:
    """A partition was given to a member, between these times."""

    begun_us: int
    at_us: int
    generation: int
    instance: str


class _GroupCheck:
    def __init__(self, happenings: Iterable[Happening]) -> None:
        self.found: list[str] = []
        self.claims: dict[tuple[str, Place], dict[str, _Grant]] = defaultdict(dict)  # by client: what it believes
        self.grants: dict[tuple[str, Place], dict[str, _Grant]] = defaultdict(dict)  # by client: the last one
        self.asked_us: dict[tuple[str, str], int] = {}  # by group and client: its last request that was granted
        self.registers: dict[tuple[str, Place], OffsetRegister] = defaultdict(OffsetRegister)
        self.begun: dict[tuple[str, int, Place], tuple[OffsetWrite, int]] = {}  # with the place in the history
        self.stale: dict[tuple[str, int, Place], str] = {}  # who owned the partition when the commit began
        self.seen: list[OffsetSeen] = []
        self.commits: list[tuple[OffsetCommitted, int]] = []  # with the place in the history of its begin
        self.reads: dict[Place, list[tuple[int, ValueRead]]] = defaultdict(list)
        self.finals: dict[tuple[Place, bool], FinalRead] = {}
        self.groups: dict[str, str] = {}  # of each client
        for number, each in enumerate(happenings):
            match each:
                case PartitionsOwned() | PartitionsGivenUp() | MembershipConfirmed():
                    self._take_ownership(each)
                case OffsetCommitBegun():
                    self._commit_begun(number, each)
                case OffsetCommitted():
                    self._committed(each)
                case OffsetCommitRefused():
                    self.begun[each.client, each.number, each.place][0].is_refused = True
                case OffsetSeen():
                    self.seen.append(each)
                case ValueRead():
                    self.reads[each.place].append((number, each))
                case FinalRead():
                    self.finals[each.place, each.is_committed] = each

    # -- owners

    def _take_ownership(self, event: PartitionsOwned | PartitionsGivenUp | MembershipConfirmed) -> None:
        match event:
            case PartitionsOwned():
                self._owned(event)
            case PartitionsGivenUp():
                self._forget_claims(event.client, event.group, ())
            case MembershipConfirmed():
                self.asked_us[event.group, event.client] = event.begun_us
                for place in event.places:
                    newer = self._newer_owner(event.client, event.group, place, event.begun_us)
                    if newer:
                        self.found.append(_believed(event.client, "a heartbeat", event.group, place, newer))

    def _owned(self, event: PartitionsOwned) -> None:
        self.groups[event.client] = event.group
        self.asked_us[event.group, event.client] = event.begun_us
        self._forget_claims(event.client, event.group, event.places)
        for place in event.places:
            claims = self.claims[event.group, place]
            former = claims.get(event.client)
            begun_us, at_us = (event.begun_us, event.at_us) if former is None else (former.begun_us, former.at_us)
            grant = claims[event.client] = _Grant(begun_us, at_us, event.generation, event.instance)
            self.grants[event.group, place][event.client] = grant
            for other, claim in claims.items():
                # A static member's new process takes the place of the old one, in the same generation (KIP-345).
                is_another = other != event.client and (not claim.instance or claim.instance != event.instance)
                # Else the group may have been emptied, and come to this generation a second time.
                is_alive = event.at_us - self.asked_us[event.group, other] < _SESSION_US_MIN
                if is_another and is_alive and claim.generation == event.generation:
                    self.found.append(
                        f"{_at(place)} belongs to {event.client} and to {other} in generation {event.generation}"
                        f" of {event.group}"
                    )
            # A commit whose outcome nobody heard counts no more, if it did not before.
            self.registers[event.group, place].given_to(event.client, begun_us, event.at_us)

    def _forget_claims(self, client: str, group: str, kept: tuple[Place, ...]) -> None:
        for (of_group, place), claims in self.claims.items():
            if of_group == group and place not in kept:
                claims.pop(client, None)

    def _newer_owner(self, client: str, group: str, place: Place, begun_us: int) -> str:
        """The client that got the partition after this one, and knew so when this one's request began; or nothing."""
        grants = self.grants[group, place]
        own = grants.get(client)
        if own is None:
            return ""
        newer = (
            other
            for other, grant in grants.items()
            if other != client and grant.begun_us > own.at_us and grant.at_us < begun_us
        )
        return next(newer, "")

    # -- commits

    def _commit_begun(self, number: int, event: OffsetCommitBegun) -> None:
        own = self.grants[event.group, event.place].get(event.client)
        write = OffsetWrite(event.client, event.offset, event.at_us, _NEVER if own is None else own.at_us)
        self.registers[event.group, event.place].begin(write)
        key = (event.client, event.number, event.place)
        self.begun[key] = (write, number)
        newer = self._newer_owner(event.client, event.group, event.place, event.at_us)
        if newer:
            self.stale[key] = newer

    def _committed(self, event: OffsetCommitted) -> None:
        key = (event.client, event.number, event.place)
        write, number = self.begun[key]
        write.is_certain = True
        write.end_us = min(write.end_us, event.at_us)
        self.commits.append((event, number))
        if key in self.stale:
            self.found.append(_believed(event.client, "a commit", event.group, event.place, self.stale[key]))

    # -- the promises

    def errors(self) -> Iterator[str]:
        yield from self.found
        yield from self._offsets_are_kept()
        yield from self._nothing_passed_over()

    def _offsets_are_kept(self) -> Iterator[str]:
        seen: dict[tuple[str, Place], list[OffsetSeen]] = defaultdict(list)
        for each in self.seen:
            seen[each.group, each.place].append(each)
        for key, register in self.registers.items():
            register.settle(seen[key])
        for each in self.seen:
            register = self.registers[each.group, each.place]
            if not register.may_answer(each):
                last = register.last_before(each)
                instead = ""
                if last is not None:
                    instead = f": {last.offset} was, by {last.client}, before {last.end_us / 1e6:.3f} s"
                yield (
                    f"{each.client} found offset {each.offset} of {_at(each.place)} committed for {each.group} at"
                    f" {each.at_us / 1e6:.3f} s, which is not the last one committed{instead}"
                )

    def _nothing_passed_over(self) -> Iterator[str]:
        """Some member had read every record in front of a committed offset before the commit began."""
        positions: dict[tuple[str, Place], tuple[list[int], list[int]]] = {}
        members = set(self.groups.values())
        for commit, number in self.commits:
            # Of a group without members the checker of processors knows more.
            if commit.group not in members:
                continue
            key = (commit.group, commit.place)
            if key not in positions:
                positions[key] = self._first_reads(*key)
            offsets, latest = positions[key]
            place = bisect_left(offsets, commit.offset)
            if place and latest[place - 1] > number:
                missed = next(at for at, when in zip(offsets, latest, strict=True) if when > number)
                yield f"{commit.group} passed over {_at(commit.place)} at {missed}: it committed {commit.offset}"

    def _first_reads(self, group: str, place: Place) -> tuple[list[int], list[int]]:
        """Offsets of the final read, and for each when all up to it had been read: a place in the history."""
        first: dict[int, int] = {}
        is_committed = True
        for number, read in self.reads[place]:
            if self.groups.get(read.client) == group:
                first.setdefault(read.offset, number)
                is_committed = read.is_committed
        final = self.finals.get((place, is_committed))
        offsets = [] if final is None else [offset for offset, _ in final.records]
        return offsets, list(accumulate((first.get(offset, _NEVER) for offset in offsets), max))


def _believed(client: str, what: str, group: str, place: Place, newer: str) -> str:
    return f"{what} of {client} was accepted although {newer} has got {_at(place)} in {group} since"


def _at(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
