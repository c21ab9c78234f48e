"""W3C Trace Context: which trace a message or call belongs to, as the headers `traceparent` and `tracestate` have it.

Strategy: strict and bounded. A `traceparent` that breaks the recommendation counts as absent, and so does one of
two; a `tracestate` with a bad member is dropped as a whole, and one that is too long loses members from its
end. Nothing here ever raises for what a stranger has sent.

Knows no tracer: it has numbers and text. (https://www.w3.org/TR/trace-context-2/)
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
TRACE_NAMES: Final = frozenset({TRACEPARENT, TRACESTATE})

TRACEPARENT_CHARACTERS_MAX: Final = 256
MEMBERS_MAX: Final = 32  # of a tracestate
TRACESTATE_CHARACTERS_MAX: Final = 512  # what everybody has to pass on; we pass on no more
TRACESTATE_GIVEN_MAX: Final = 16_384  # a longer one is ignored
FLAGS_KNOWN: Final = 0x03  # sampled, and random trace id: others must not be passed on

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?")
_KEY: Final = re.compile(r"[a-z0-9][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}")
_VALUE: Final = re.compile(r"[ -+\--<>-~]{0,255}[!-+\--<>-~]")

HeaderValue = str | bytes | None


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The span that caused something, somewhere else. Neither id is zero."""

    trace_id: int  # 128 bits
    span_id: int  # 64 bits
    flags: int = 0
    state: tuple[tuple[str, str], ...] = ()  # newest first, at most MEMBERS_MAX

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags & FLAGS_KNOWN:02x}"

    @property
    def tracestate(self) -> str:
        """Empty where there is none."""
        return format_state(self.state)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers that pass this context on."""
        state = self.tracestate
        parent = (TRACEPARENT, self.traceparent)
        return (parent, (TRACESTATE, state)) if state else (parent,)


def read_trace(pairs: Iterable[tuple[str, HeaderValue]]) -> TraceContext | None:
    """Return the trace of the headers, whose names match in any case; None without one."""
    parents: list[HeaderValue] = []
    states: list[HeaderValue] = []
    for name, value in pairs:
        if len(name) == len(TRACEPARENT) or len(name) == len(TRACESTATE):
            lowered = name.lower()
            if lowered == TRACEPARENT:
                parents.append(value)
            elif lowered == TRACESTATE:
                states.append(value)
    # Two contradict each other, and nothing shows which one is right.
    if len(parents) != 1:
        return None
    ids = parse_traceparent(parents[0])
    return None if ids is None else TraceContext(*ids, parse_tracestate(states))


def parse_traceparent(value: HeaderValue) -> tuple[int, int, int] | None:
    """Trace id, span id and flags, or None for what is no traceparent."""
    text = _text(value, TRACEPARENT_CHARACTERS_MAX)
    match = None if text is None else _PARENT.fullmatch(text)
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    # Version ff is forbidden. Version 00 has four fields exactly; later versions may append more, which are skipped.
    if version == "ff" or (version == "00" and more is not None):
        return None
    ids = int(trace_id, 16), int(span_id, 16)
    return (*ids, int(flags, 16) & FLAGS_KNOWN) if all(ids) else None


def parse_tracestate(values: Iterable[HeaderValue]) -> tuple[tuple[str, str], ...]:
    """The members of a tracestate, whose header may come several times; none where it is not what it should be."""
    members: dict[str, str] = {}
    given_max = TRACESTATE_GIVEN_MAX
    for value in values:
        text = _text(value, given_max)
        if text is None:
            return ()
        given_max -= len(text)
        for member in text.split(","):
            stripped = member.strip(" \t")
            # The recommendation allows empty members: they appear where several headers are joined.
            if not stripped:
                continue
            key, equals, content = stripped.partition("=")
            # A list with one bad member, or with a key twice, does not parse, so it is discarded as a whole.
            if not equals or key in members or not _KEY.fullmatch(key) or not _VALUE.fullmatch(content):
                return ()
            members[key] = content
            if len(members) > MEMBERS_MAX:
                return ()
    return tuple(members.items())


def format_state(members: Iterable[tuple[str, str]]) -> str:
    """A tracestate of at most TRACESTATE_CHARACTERS_MAX: where it would be longer, the oldest members are left out."""
    shown: list[str] = []
    left = TRACESTATE_CHARACTERS_MAX + 1
    for key, value in members:
        member = f"{key}={value}"
        left -= len(member) + 1
        # Members are left out whole and from the end, where the oldest are: a cut value would be another value.
        if left < 0:
            break
        shown.append(member)
    return ",".join(shown[:MEMBERS_MAX])


def without_trace(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The headers without those of a trace."""
    return tuple([pair for pair in pairs if pair[0].lower() not in TRACE_NAMES])


def _text(value: HeaderValue, characters_max: int) -> str | None:
    if value is None or len(value) > characters_max:
        return None
    if isinstance(value, str):
        return value if value.isascii() else None
    return value.decode("ascii") if value.isascii() else None
