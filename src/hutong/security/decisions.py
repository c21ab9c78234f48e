"""Authorization decisions: one principal, one operation, one resource, decided from all ACLs.

Strategy: Kafka's rules. Every ACL whose pattern covers the resource counts: literal, prefixed and wildcard. A deny
among them wins, then an allow. If no ACL covers the resource, a setting allows or denies everybody. Super users are
allowed everything.

ACLs are indexed by resource type, pattern, name and principal. A decision looks up the name, the wildcard, and one
prefix for each length that prefixes have, and in each two principals. So thousands of ACLs cost no more than ten.
Decisions are cached until an ACL changes. Callers with a cache of their own compare `version`.

Knows nothing of requests, topics or disks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from hutong.security.acls import (
    EVERYBODY,
    IMPLIED_BY,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    canonical_host,
)

DECISIONS_MAX: Final = 10_000  # in the cache
NAME_CHARACTERS_MAX: Final = 300  # clients choose names: a longer one is decided without the cache
_ANY_NAME: Final = None

_Rules = dict[str, dict[Acl, None]]  # of one pattern, by principal
_Asked = tuple[str, str, Operation, ResourceType, str | None]


class _Kind:
    """The ACLs about one kind of resource."""

    __slots__ = ("by_principal", "literal", "prefix_lengths", "prefixed")

    def __init__(self) -> None:
        self.by_principal: _Rules = {}  # of every pattern
        self.literal: dict[str, _Rules] = {}
        self.prefixed: dict[str, _Rules] = {}
        self.prefix_lengths: Counter[int] = Counter()  # of the names in `prefixed`

    def covering(self, name: str) -> Iterator[_Rules]:
        """The rules of every pattern that a resource of this name falls under."""
        # The resource `*` itself must not yield the wildcard's rules twice.
        for literal in (name,) if name == WILDCARD else (name, WILDCARD):
            if literal in self.literal:
                yield self.literal[literal]
        # One lookup for each length in use, instead of a test of every prefix.
        for length in self.prefix_lengths:
            if length <= len(name) and name[:length] in self.prefixed:
                yield self.prefixed[name[:length]]

    def add(self, acl: Acl) -> None:
        by_name = self.literal if acl.pattern is PatternType.LITERAL else self.prefixed
        # Counted by names, not by ACLs: a name with ten ACLs is one prefix.
        if by_name is self.prefixed and acl.name not in by_name:
            self.prefix_lengths[len(acl.name)] += 1
        by_name.setdefault(acl.name, {}).setdefault(acl.principal, {})[acl] = None
        self.by_principal.setdefault(acl.principal, {})[acl] = None

    def remove(self, acl: Acl) -> None:
        del self.by_principal[acl.principal][acl]
        if not self.by_principal[acl.principal]:
            del self.by_principal[acl.principal]
        by_name = self.literal if acl.pattern is PatternType.LITERAL else self.prefixed
        # Empty tables go: an empty rule set would still count as covering the resource in `_decide`.
        rules = by_name[acl.name]
        del rules[acl.principal][acl]
        if rules[acl.principal]:
            return
        del rules[acl.principal]
        if rules:
            return
        del by_name[acl.name]
        if by_name is self.prefixed:
            self.prefix_lengths[len(acl.name)] -= 1
            self.prefix_lengths += Counter()  # drops lengths with a count of 0


class Decisions:
    """All ACLs, and what follows from them."""

    def __init__(self, super_users: Iterable[str] = (), *, allows_without_acl: bool = False) -> None:
        self.version = 0  # rises with every change of an answer that was given before
        self._super_users = frozenset(super_users)
        self._allows_without_acl = allows_without_acl
        self._acls: dict[Acl, int] = {}  # each with its place in the order of creation
        self._kinds: dict[ResourceType, _Kind] = {}
        self._kept: dict[_Asked, bool] = {}
        self._added = 0

    def __len__(self) -> int:
        return len(self._acls)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._acls

    # -- changes

    def govern(self, super_users: Iterable[str], *, allows_without_acl: bool) -> None:
        """Replace the super users, and the verdict on resources that no ACL covers."""
        self._super_users = frozenset(super_users)
        self._allows_without_acl = allows_without_acl
        self._changed()

    def add(self, acl: Acl) -> None:
        """Add a rule. Adding an existing rule changes nothing."""
        if acl in self._acls:
            return
        self._added += 1
        self._acls[acl] = self._added
        self._kinds.setdefault(acl.resource_type, _Kind()).add(acl)
        self._changed()

    def remove(self, acl: Acl) -> None:
        """Remove a rule. Removing an unknown rule changes nothing."""
        if acl not in self._acls:
            return
        del self._acls[acl]
        self._kinds[acl.resource_type].remove(acl)
        self._changed()

    # -- answers

    def find(self, wanted: AclFilter) -> list[Acl]:
        """Return the ACLs that a filter matches, oldest first."""
        return [acl for acl in self.candidates(wanted) if wanted.matches(acl)]

    def candidates(self, wanted: AclFilter) -> list[Acl]:
        """Return the ACLs that a filter may match, oldest first. A filter with a name uses the index."""
        # A filter without a name may match any ACL; the insertion order is the order of creation.
        if wanted.name is None:
            return list(self._acls)
        # The index has no order of its own: listings keep the order of creation.
        return sorted(self._named(wanted.name, wanted), key=self._acls.__getitem__)

    def allows(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Decide on one operation of a principal, connected from `host`, on one resource."""
        if principal in self._super_users:
            return True
        asked = principal, host, operation, kind, name
        known = self._kept.get(asked)
        if known is None:
            known = self._decide(principal, canonical_host(host), operation, kind, name)
            # Names come from clients: long ones would fill the cache with megabytes.
            if len(name) <= NAME_CHARACTERS_MAX:
                self._keep(asked, known)
        return known

    def allows_some(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Return True if the operation is allowed on at least one resource of the type, existing or not (KIP-679)."""
        if principal in self._super_users:
            return True
        asked = principal, host, operation, kind, _ANY_NAME
        known = self._kept.get(asked)
        if known is None:
            known = self._decide_some(principal, canonical_host(host), operation, kind)
            self._keep(asked, known)
        return known

    def check_invariants(self) -> None:
        indexed = [
            acl
            for kind in self._kinds.values()
            for by_name in (kind.literal, kind.prefixed)
            for rules in by_name.values()
            for acls in rules.values()
            for acl in acls
        ]
        assert len(indexed) == len(self._acls)
        assert set(indexed) == self._acls.keys()
        by_principal = [acl for kind in self._kinds.values() for acls in kind.by_principal.values() for acl in acls]
        assert len(by_principal) == len(self._acls)
        assert set(by_principal) == self._acls.keys()
        for kind in self._kinds.values():
            assert kind.prefix_lengths == Counter(map(len, kind.prefixed))
        assert len(self._kept) <= DECISIONS_MAX

    # -- inside

    def _named(self, name: str, wanted: AclFilter) -> Iterator[Acl]:
        """Yield every ACL whose pattern has this name, or covers it if the filter's pattern is MATCH."""
        for resource_type, kind in self._kinds.items():
            # Kafka's filter type ANY searches all types.
            if wanted.resource_type not in (ResourceType.ANY, resource_type):
                continue
            # MATCH finds what applies to a resource of this name; the other patterns find ACLs of exactly this name.
            if wanted.pattern is PatternType.MATCH:
                patterns: Iterable[_Rules] = kind.covering(name)
            else:
                patterns = [by_name[name] for by_name in (kind.literal, kind.prefixed) if name in by_name]
            for rules in patterns:
                for acls in rules.values():
                    yield from acls

    def _changed(self) -> None:
        self.version += 1
        self._kept.clear()

    def _keep(self, asked: _Asked, answer: bool) -> None:
        # Emptied at once: an eviction order would cost every hit, and decisions are cheap to make again.
        if len(self._kept) >= DECISIONS_MAX:
            self._kept.clear()
        self._kept[asked] = answer

    def _decide(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        there = self._kinds.get(kind)
        is_covered = is_allowed = False
        for rules in there.covering(name) if there is not None else ():
            is_covered = True
            for acl in _about(rules, principal, host):
                if acl.permission is Permission.DENY:
                    # No implication here: denying READ does not deny DESCRIBE (StandardAuthorizer).
                    # A deny is final, whatever was allowed before it in the iteration.
                    if acl.operation in (operation, Operation.ALL):
                        return False
                elif acl.operation in (operation, Operation.ALL) or acl.operation in IMPLIED_BY.get(operation, ()):
                    is_allowed = True
        # allow.everyone.if.no.acl.found applies only where no ACL covers the resource, not even another principal's.
        return is_allowed if is_covered else self._allows_without_acl

    def _decide_some(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """An allowed pattern counts unless a denied one covers all of it. Implied operations do not count here."""
        there = self._kinds.get(kind)
        if there is None:
            return self._allows_without_acl
        # With the permissive default any uncovered name will do, and almost every name is uncovered.
        if self._allows_without_acl and not _is_covered(_A_NAME, there):
            return True
        about = [
            acl
            for acl in _about(there.by_principal, principal, host)
            if acl.operation is operation or acl.operation is Operation.ALL
        ]
        denied = [acl for acl in about if acl.permission is Permission.DENY]
        denied_names = {acl.name for acl in denied if acl.pattern is PatternType.LITERAL}
        # A literal `*` denies every resource of the type.
        if WILDCARD in denied_names:
            return False
        denied_prefixes = Prefixes(acl.name for acl in denied if acl.pattern is PatternType.PREFIXED)
        for acl in about:
            if acl.permission is not Permission.ALLOW:
                continue
            is_literal = acl.pattern is PatternType.LITERAL
            # All names are allowed and not all are denied, so some name is free.
            if is_literal and acl.name == WILDCARD:
                return True
            # A deny of the same literal name, or of a prefix of it, cancels this allow as a whole (KIP-679).
            if not (is_literal and acl.name in denied_names) and not denied_prefixes.cover(acl.name):
                return True
        return False


class Prefixes:
    """Prefixes of which one covers a name, or none does.

    Those that a shorter one covers are left out, so of those that remain only the greatest that is not greater than a
    name can be a prefix of it: two of them would cover one another.
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._sorted: list[str] = []
        for prefix in sorted(prefixes):
            if not (self._sorted and prefix.startswith(self._sorted[-1])):
                self._sorted.append(prefix)

    def cover(self, name: str) -> bool:
        place = bisect_right(self._sorted, name)
        return place > 0 and name.startswith(self._sorted[place - 1])


_A_NAME: Final = "hardcode"  # Kafka's own stand-in for a resource with any name


def _is_covered(name: str, kind: _Kind) -> bool:
    return next(kind.covering(name), None) is not None


def _about(rules: _Rules, principal: str, host: str) -> Iterator[Acl]:
    """The rules for this principal, or for everybody, from this address."""
    for who in (principal,) if principal == EVERYBODY else (principal, EVERYBODY):
        for acl in rules.get(who, ()):
            if acl.host == WILDCARD or canonical_host(acl.host) == host:
                yield acl
