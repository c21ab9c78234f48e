"""Decisions from ACLs: by the rules, whatever order ACLs came and went in, and held against a slow model."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.security import decisions as decisions_module
from hutong.security.acls import (
    IMPLIED_BY,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    canonical_host,
)
from hutong.security.decisions import DECISIONS_MAX, NAME_CHARACTERS_MAX, Decisions, Prefixes

READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
TOPIC = ResourceType.TOPIC
HERE = "10.0.0.1"


def acl(
    name: str = "t",
    operation: Operation = READ,
    *,
    principal: str = "User:a",
    host: str = "*",
    kind: ResourceType = TOPIC,
    prefixed: bool = False,
    deny: bool = False,
) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(kind, name, pattern, principal, host, operation, Permission.DENY if deny else Permission.ALLOW)


def decisions(*acls: Acl, super_users: tuple[str, ...] = (), allows_without_acl: bool = False) -> Decisions:
    made = Decisions(super_users, allows_without_acl=allows_without_acl)
    for each in acls:
        made.add(each)
    made.check_invariants()
    return made


def may(there: Decisions, operation: Operation = READ, name: str = "t", who: str = "User:a", host: str = HERE) -> bool:
    return there.allows(who, host, operation, TOPIC, name)


def test_nobody_may_anything_unless_an_acl_says_so() -> None:
    there = decisions(acl())
    assert may(there)
    assert not may(there, WRITE)
    assert not may(there, name="u")
    assert not may(there, who="User:b")
    assert not there.allows("User:a", HERE, READ, ResourceType.GROUP, "t")
    assert not may(decisions())


def test_everybody_may_where_no_acl_is_about_it_if_that_is_wanted() -> None:
    there = decisions(acl("t", principal="User:b"), acl("pre", prefixed=True), allows_without_acl=True)
    assert not may(there, name="t")
    assert not may(there, WRITE, "prefix")
    assert may(there, WRITE, "other")
    there.add(acl("*", DESCRIBE, principal="User:c"))
    assert not may(there, WRITE, "other"), "a wildcard is about all"


@pytest.mark.parametrize("denied", [acl(deny=True), acl("*", deny=True), acl("", ALL, prefixed=True, deny=True)])
def test_a_deny_wins(denied: Acl) -> None:
    there = decisions(acl(), acl("*"), acl("t", ALL, principal="User:*"), denied)
    assert not may(there)
    there.remove(denied)
    assert may(there)


def test_super_users_may_everything() -> None:
    there = decisions(acl("t", ALL, principal="User:*", deny=True), super_users=("User:root",))
    assert may(there, who="User:root")
    assert not may(there)
    there.govern(("User:a",), allows_without_acl=False)
    assert may(there)
    assert not may(there, who="User:root")


@pytest.mark.parametrize("operation", [READ, WRITE, Operation.DELETE, Operation.ALTER, ALL])
def test_what_implies_describe(operation: Operation) -> None:
    assert may(decisions(acl(operation=operation)), DESCRIBE)


def test_what_is_denied_implies_nothing() -> None:
    assert may(decisions(acl(operation=DESCRIBE), acl(deny=True)), DESCRIBE)
    assert not may(decisions(acl(operation=DESCRIBE)), READ)
    assert may(decisions(acl(operation=Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS)
    assert not may(decisions(acl(operation=Operation.ALTER)), Operation.DESCRIBE_CONFIGS)


def test_hosts_are_compared_as_addresses() -> None:
    assert may(decisions(acl(host=HERE)))
    assert may(decisions(acl(host=HERE)), host="::ffff:10.0.0.1")
    assert not may(decisions(acl(host="10.0.0.2")))
    assert may(decisions(acl(host="0:0:0:0:0:0:0:1")), host="::1")
    assert canonical_host("not:an:address") == "not:an:address"


def test_everybody_is_every_principal_of_whatever_type() -> None:
    there = decisions(acl(principal="User:*"))
    assert may(there, who="Group:x")
    assert may(there, who="User:*")


def test_prefixes_of_every_length_count() -> None:
    there = decisions(acl("ab", prefixed=True), acl("abcd", WRITE, prefixed=True), acl("abc", READ, deny=True))
    assert may(there, name="ab")
    assert not may(there, name="a")
    assert may(there, WRITE, "abcde")
    assert not may(there, READ, "abc")
    assert may(there, READ, "abcx")
    assert not may(decisions(acl("*", prefixed=True)), name="t"), "as a prefix the wildcard is a character"


def test_a_change_ends_what_was_decided() -> None:
    there = decisions()
    assert not may(there)
    version = there.version
    there.add(acl())
    there.add(acl())
    assert there.version == version + 1
    assert may(there)
    there.remove(acl())
    there.remove(acl())
    assert there.version == version + 2
    assert not may(there)
    assert len(there) == 0


def test_what_is_kept_is_bounded() -> None:
    there = decisions(acl("t", prefixed=True))
    for number in range(DECISIONS_MAX + 10):
        assert may(there, name=f"t{number}")
    assert may(there, name="t" * (NAME_CHARACTERS_MAX + 1))
    there.check_invariants()


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ((), False),
        ((acl(operation=WRITE),), True),
        ((acl(operation=ALL, prefixed=True),), True),
        ((acl(operation=READ),), False),
        ((acl("*", WRITE),), True),
        ((acl("*", WRITE), acl("*", WRITE, deny=True)), False),
        ((acl("*", WRITE), acl("t", WRITE, deny=True)), True),
        ((acl("t", WRITE), acl("t", WRITE, deny=True)), False),
        ((acl("topic", WRITE), acl("to", ALL, prefixed=True, deny=True)), False),
        ((acl("to", WRITE, prefixed=True), acl("topic", WRITE, prefixed=True, deny=True)), True),
        ((acl("topic", WRITE, prefixed=True), acl("to", WRITE, prefixed=True, deny=True)), False),
        ((acl("t", WRITE, principal="User:*"),), True),
        ((acl("t", WRITE, host="10.9.9.9"),), False),
    ],
)
def test_some_resource_is_enough(acls: tuple[Acl, ...], expected: bool) -> None:
    there = decisions(*acls)
    assert there.allows_some("User:a", HERE, WRITE, TOPIC) is expected
    assert there.allows_some("User:a", HERE, WRITE, TOPIC) is expected, "and so it is when asked again"


def test_some_resource_without_acls() -> None:
    assert decisions(allows_without_acl=True).allows_some("User:a", HERE, WRITE, TOPIC)
    assert decisions(acl(deny=True, operation=ALL), allows_without_acl=True).allows_some("User:a", HERE, WRITE, TOPIC)
    assert decisions(super_users=("User:a",)).allows_some("User:a", HERE, WRITE, TOPIC)


# -- filters

LITERAL, PREFIXED, ANY, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.ANY, PatternType.MATCH
SOME = (acl("topic"), acl("to", prefixed=True), acl("*"), acl("other", WRITE, principal="User:b", host=HERE, deny=True))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), SOME),
        (AclFilter(TOPIC, "topic", ANY), SOME[:1]),
        (AclFilter(TOPIC, "topic", LITERAL), SOME[:1]),
        (AclFilter(TOPIC, "topic", MATCH), SOME[:3]),
        (AclFilter(TOPIC, "to", PREFIXED), SOME[1:2]),
        (AclFilter(TOPIC, "to", LITERAL), ()),
        (AclFilter(TOPIC, "*", ANY), SOME[2:3]),
        (AclFilter(ResourceType.ANY, "topic", MATCH), SOME[:3]),
        (AclFilter(ResourceType.GROUP, "topic", MATCH), ()),
        (AclFilter(ResourceType.ANY, "other", ANY, "User:a"), ()),
        (AclFilter(TOPIC, None, PREFIXED), SOME[1:2]),
        (AclFilter(ResourceType.GROUP), ()),
        (AclFilter(principal="User:b"), SOME[3:]),
        (AclFilter(host=HERE), SOME[3:]),
        (AclFilter(operation=READ), SOME[:3]),
        (AclFilter(operation=ALL), ()),
        (AclFilter(permission=Permission.DENY), SOME[3:]),
    ],
)
def test_filters(wanted: AclFilter, found: tuple[Acl, ...]) -> None:
    assert tuple(decisions(*SOME).find(wanted)) == found


# -- against a model

NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
WHO = st.sampled_from(["User:a", "User:b", "User:*"])
OPERATIONS = st.sampled_from([READ, WRITE, DESCRIBE, ALL, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS])
ACLS = st.builds(
    Acl,
    st.just(TOPIC),
    NAMES,
    st.sampled_from([LITERAL, PREFIXED]),
    WHO,
    st.sampled_from(["*", HERE, "10.0.0.2"]),
    OPERATIONS,
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


def model(acls: set[Acl], who: str, operation: Operation, name: str, default: bool) -> bool:
    about = [a for a in acls if (a.name in (name, "*") if a.pattern is LITERAL else name.startswith(a.name))]
    mine = [a for a in about if a.principal in (who, "User:*") and a.host in ("*", HERE)]
    if any(a.permission is Permission.DENY and a.operation in (operation, ALL) for a in mine):
        return False
    enough = {operation, ALL, *IMPLIED_BY.get(operation, ())}
    if any(a.permission is Permission.ALLOW and a.operation in enough for a in mine):
        return True
    return default and not about


@given(st.lists(st.tuples(st.booleans(), ACLS), max_size=12), st.booleans())
def test_decisions_are_those_of_the_model(changes: list[tuple[bool, Acl]], default: bool) -> None:
    there, acls = Decisions(allows_without_acl=default), set[Acl]()
    for adds, each in changes:
        (acls.add if adds else acls.discard)(each)
        (there.add if adds else there.remove)(each)
        for operation in (READ, DESCRIBE, Operation.DESCRIBE_CONFIGS):
            for name in ("a", "abc", "c"):
                assert may(there, operation, name) is model(acls, "User:a", operation, name, default)
    there.check_invariants()


def model_of_some(acls: set[Acl], who: str, operation: Operation) -> bool:
    """Every allowed pattern against every denied one."""
    mine = [a for a in acls if a.principal in (who, "User:*") and a.host in ("*", HERE)]
    mine = [a for a in mine if a.operation in (operation, ALL)]
    denied = [a for a in mine if a.permission is Permission.DENY]
    if any(a.pattern is LITERAL and a.name == "*" for a in denied):
        return False

    def is_denied(allowed: Acl) -> bool:
        if allowed.pattern is LITERAL and allowed.name == "*":
            return False
        prefixes = [a.name for a in denied if a.pattern is PREFIXED]
        names = [a.name for a in denied if a.pattern is LITERAL]
        return allowed.name.startswith(tuple(prefixes)) or (allowed.pattern is LITERAL and allowed.name in names)

    return any(a.permission is Permission.ALLOW and not is_denied(a) for a in mine)


@given(st.lists(st.tuples(st.booleans(), ACLS), max_size=12))
def test_some_resource_is_that_of_the_model(changes: list[tuple[bool, Acl]]) -> None:
    there, acls = Decisions(), set[Acl]()
    for adds, each in changes:
        (acls.add if adds else acls.discard)(each)
        (there.add if adds else there.remove)(each)
        for operation in (READ, WRITE):
            assert there.allows_some("User:a", HERE, operation, TOPIC) is model_of_some(acls, "User:a", operation)
    there.check_invariants()


@given(st.lists(st.text("ab*", min_size=1, max_size=4), max_size=8), st.text("ab*", max_size=6))
def test_prefixes_cover_what_begins_with_one(prefixes: list[str], name: str) -> None:
    assert Prefixes(prefixes).cover(name) is name.startswith(tuple(prefixes))


def test_the_acls_of_others_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client chooses the address it comes from: each new one is decided anew, whatever there is about others."""
    there = decisions(*(acl(f"t{number}", WRITE, principal=f"User:{number}") for number in range(100)))
    looks, look = [], decisions_module._about

    def counting(*arguments: Any) -> Iterator[Acl]:
        looks.append(arguments)
        return look(*arguments)

    monkeypatch.setattr(decisions_module, "_about", counting)
    assert not there.allows_some("User:me", HERE, WRITE, TOPIC)
    assert len(looks) == 1


def test_allowed_names_are_not_compared_with_each_denied_prefix() -> None:
    names = [Compared(f"{number:04}") for number in range(1_000)]
    there = Decisions()
    for name in names:
        there.add(acl(name, WRITE, deny=True, prefixed=True))
        there.add(acl(Compared(f"{name}-x"), WRITE))
    Compared.looks = 0
    assert not there.allows_some("User:a", HERE, WRITE, TOPIC)
    assert Compared.looks < 100_000, "a million pairs"


class Compared(str):
    """Counts comparisons for order and for beginnings."""

    __slots__ = ()
    looks = 0

    def __lt__(self, other: str) -> bool:
        Compared.looks += 1
        return str.__lt__(self, other)

    def startswith(self, *arguments: Any) -> bool:
        Compared.looks += 1
        return str.startswith(self, *arguments)

    def __getitem__(self, place: Any) -> str:
        Compared.looks += 100  # a copy, which is then hashed
        return str.__getitem__(self, place)
