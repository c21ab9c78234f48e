"""Slows down guesses of passwords: for each user from each address, and a little for each user.

Strategy: a check of a password waits while earlier failures of the same user from the same address are fresh. The wait
doubles up to a bound, and each wait admits one check. An attacker cannot lock out clients at other addresses: a user's
failures from all addresses together cost one short wait. Unknown user names count like known ones.

Memory is bounded: an address has a few users of its own, and one count for all others. When there are too many
addresses, the ones with the fewest failures among those silent for longest are forgotten, so that cheap newcomers do
not push out a stubborn one.

Pure: time arrives with each call. Knows nothing of mechanisms.
"""

import hashlib
import ipaddress
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol, TypeVar

FREE_FAILURES: Final = 5  # typing errors, and programs with an old password that try again a few times
DELAY_MS_MIN: Final = 250
USER_FREE_FAILURES: Final = 20  # of one user from all addresses
USER_DELAY_MS_MIN: Final = 50
USER_DELAY_MS_MAX: Final = 1_000
FORGET_MS: Final = 10 * 60_000  # failures count until there was none for so long
PARALLEL_MAX: Final = 4  # checks at once of one user from one address: more would pass before the first has failed
RETRY_MS: Final = 20
ADDRESSES_MAX: Final = 4_096
USERS_PER_ADDRESS_MAX: Final = 16
USERS_MAX: Final = 10_000
EVICTION_SAMPLE: Final = 8
_IPV6_NETWORK_BITS: Final = 64  # what one client has at least: all its addresses count as one
_DOUBLINGS_MAX: Final = 20


@dataclass(slots=True)
class Failures:
    """A count of failed checks with less than FORGET_MS between each two."""

    count: int = 0
    at_ms: int = 0

    def add(self, now_ms: int) -> None:
        self.count = self.fresh(now_ms) + 1
        self.at_ms = now_ms

    def fresh(self, now_ms: int) -> int:
        return self.count if now_ms - self.at_ms < FORGET_MS else 0


@dataclass(slots=True)
class Pair:
    """One user from one address, or all those of an address that have no count of their own."""

    failures: Failures = field(default_factory=Failures)
    free_at_ms: int = 0  # no check before
    checking: int = 0  # checks under way


@dataclass(slots=True)
class Origin:
    """The failures of one address."""

    pairs: dict[bytes, Pair] = field(default_factory=dict)
    others: Pair = field(default_factory=Pair)

    def fresh(self, now_ms: int) -> int:
        return sum(pair.failures.fresh(now_ms) + pair.checking for pair in (*self.pairs.values(), self.others))


class Guesses:
    """Of one node. Ask `wait_ms` before each check until it is 0; then call `ended` once it is known."""

    def __init__(self, delay_ms_max: int) -> None:
        """With a bound of 0 nothing waits."""
        self._delay_ms_max = delay_ms_max
        self._origins: OrderedDict[str, Origin] = OrderedDict()  # failed last comes last
        self._users: OrderedDict[bytes, Failures] = OrderedDict()

    def wait_ms(self, user: str, address: str, since_ms: int, now_ms: int) -> int:
        """Begin a check that has waited since `since_ms` and return 0, or return the ms after which to ask again."""
        # Switched off by a setting: nothing is counted then.
        if not self._delay_ms_max:
            return 0
        name = _digest(user)
        pair = self._pair(name, _network(address), now_ms)
        # The wait of this user from this address, before the one of the user everywhere.
        if now_ms < pair.free_at_ms:
            return pair.free_at_ms - now_ms
        if pair.checking >= PARALLEL_MAX:
            return RETRY_MS
        # From when the check came, not from now: asking again must not start it anew.
        rest_ms = since_ms + self._user_delay_ms(name, now_ms) - now_ms
        if rest_ms > 0:
            return rest_ms
        pair.checking += 1
        pair.free_at_ms = now_ms + self._delay_ms(pair, now_ms)
        return 0

    def ended(self, user: str, address: str, now_ms: int, *, is_right: bool | None) -> None:
        """Record the end of a check. `is_right` is None if the password was not compared."""
        if not self._delay_ms_max:
            return
        name, network = _digest(user), _network(address)
        pair = self._pair(name, network, now_ms)
        pair.checking = max(0, pair.checking - 1)  # its count was forgotten meanwhile, perhaps
        if is_right is False:
            self._fail(name, network, pair, now_ms)
        # The shared count stays: one valid account must not reset the guesses at others.
        elif is_right and pair is not self._origins[network].others:
            pair.failures, pair.free_at_ms = Failures(), 0
        self._drop_unused(name, network, pair, now_ms)

    def __len__(self) -> int:
        return len(self._origins) + len(self._users)

    def check_invariants(self) -> None:
        assert len(self._origins) <= ADDRESSES_MAX
        assert len(self._users) <= USERS_MAX
        assert all(len(origin.pairs) <= USERS_PER_ADDRESS_MAX for origin in self._origins.values())
        assert all(pair.checking >= 0 for origin in self._origins.values() for pair in origin.pairs.values())

    def _fail(self, name: bytes, network: str, pair: Pair, now_ms: int) -> None:
        pair.failures.add(now_ms)
        pair.free_at_ms = now_ms + self._delay_ms(pair, now_ms)
        self._origins.move_to_end(network)
        # Only failures enter users here: correct logins from everywhere cost no memory.
        if name not in self._users:
            _make_room(self._users, USERS_MAX, now_ms)
            self._users[name] = Failures()
        self._users[name].add(now_ms)
        self._users.move_to_end(name)

    def _pair(self, name: bytes, network: str, now_ms: int) -> Pair:
        origin = self._origins.get(network)
        if origin is None:
            _make_room(self._origins, ADDRESSES_MAX, now_ms)
            origin = self._origins[network] = Origin()
        pair = origin.pairs.get(name)
        if pair is not None:
            return pair
        if len(origin.pairs) >= USERS_PER_ADDRESS_MAX:
            # Those that count for nothing any more go first.
            origin.pairs = {
                each: one for each, one in origin.pairs.items() if one.failures.fresh(now_ms) or one.checking
            }
        if len(origin.pairs) >= USERS_PER_ADDRESS_MAX:
            return origin.others
        pair = origin.pairs[name] = Pair()
        return pair

    def _drop_unused(self, name: bytes, network: str, pair: Pair, now_ms: int) -> None:
        origin = self._origins[network]
        if not pair.checking and not pair.failures.fresh(now_ms):
            origin.pairs.pop(name, None)
        if not origin.pairs and not origin.fresh(now_ms):
            del self._origins[network]

    def _delay_ms(self, pair: Pair, now_ms: int) -> int:
        return _doubled(pair.failures.fresh(now_ms) - FREE_FAILURES, DELAY_MS_MIN, self._delay_ms_max)

    def _user_delay_ms(self, name: bytes, now_ms: int) -> int:
        failures = self._users.get(name)
        if failures is None:
            return 0
        maximum = min(USER_DELAY_MS_MAX, self._delay_ms_max)
        return _doubled(failures.fresh(now_ms) - USER_FREE_FAILURES, USER_DELAY_MS_MIN, maximum)


class _Counted(Protocol):
    def fresh(self, now_ms: int) -> int: ...


K = TypeVar("K", bound=Hashable)
C = TypeVar("C", bound=_Counted)


def _make_room(counted: OrderedDict[K, C], maximum: int, now_ms: int) -> None:
    if len(counted) >= maximum:
        del counted[min(islice(counted, EVICTION_SAMPLE), key=lambda key: counted[key].fresh(now_ms))]


def _doubled(times: int, minimum: int, maximum: int) -> int:
    return 0 if times < 0 else min(maximum, minimum << min(times, _DOUBLINGS_MAX))


def _digest(user: str) -> bytes:
    """So that a long name takes no more memory than a short one."""
    return hashlib.blake2b(user.encode(), digest_size=16).digest()


def _network(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    # A dual-stack socket shows IPv4 clients as ::ffff:a.b.c.d; both forms are one client.
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(int(parsed) >> (128 - _IPV6_NETWORK_BITS))
