"""The fault switches of an embedded node, for the test's side: each breaks one thing until it is healed.

Strategy: a switch is thrown by a method, from any thread, and holds when that returns. It gives a `Fault`, which can be
asked how often it struck, healed alone, or used in a `with` block that heals it at its end. Faults outlive a restart of
the node, as a broken network or disk does.

Knows nothing of how a node carries them.
"""

import difflib
import errno
from collections.abc import Callable, Iterable
from typing import Final, Literal, Protocol, TypeVar

from hutong.broker.topics.lifetimes import DATA_GROUPS, METADATA_GROUP, OFFSETS_GROUP
from hutong.testing.disks import faults as disk_faults
from hutong.testing.faults.network import FaultKind, NetworkFault, NetworkFaults
from hutong.testing.faults.refusals import REFUSABLE
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.registry import APIS

T = TypeVar("T")
Part = Literal["everything", "records", "offsets", "topics"]
_GROUPS: Final[dict[str, Iterable[str]]] = {
    "everything": ("*",),
    "records": tuple(name for group in DATA_GROUPS for name in (group, f"{group}-*")),  # in a cluster with slots
    "offsets": (OFFSETS_GROUP, f"{OFFSETS_GROUP}-*"),  # in a cluster with several coordinators
    "topics": (METADATA_GROUP,),
}


class Fault:
    """One thing that is broken. `hits` counts how often somebody met it; `EmbeddedNode.wait_for_fault` waits for that.

    Counting takes no detour over the node's loop, so it may be asked anywhere.
    """

    def __init__(self, heal: Callable[[], object], hits: Callable[[], int]) -> None:
        self._heal = heal
        self._hits = hits

    @property
    def hits(self) -> int:
        return self._hits()

    def heal(self) -> None:
        """Mend it; once is enough, more does no harm."""
        self._heal()

    def __enter__(self) -> "Fault":
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


class OnNetwork(Protocol):
    """Calls something on the node's loop with its network faults, and returns what that returns."""

    def __call__(self, work: Callable[[NetworkFaults], T]) -> T: ...


class FaultSwitches:
    """All that can be broken. Every method may be called from any thread, also while an event loop runs there."""

    def __init__(self, on_network: OnNetwork, plan: disk_faults.FaultPlan) -> None:
        self._on_network = on_network
        self._plan = plan
        self.has_broken_disk = False  # whether a failed flush may have left something that only a restart mends

    # -- the network

    def refuse_connections(self) -> Fault:
        """Reset every connection as soon as it is made. Those that are open stay."""
        network = self._refuse(True)
        before = network.connections_refused
        return Fault(lambda: self._refuse(False), lambda: network.connections_refused - before)

    def drop_connections(self, client_id: str | None = None) -> int:
        """Cut off every connection that is open, or those of one client (its `client.id`); how many there were."""
        return self._on_network(lambda network: network.drop(client_id))

    def delay_answers(
        self, milliseconds: int, *, api: str | None = None, client_id: str | None = None, times: int | None = None
    ) -> Fault:
        """Carry requests out, but answer them late. Answers keep their order, so later ones wait too."""
        if milliseconds < 0:
            raise ValueError(f"an answer cannot be delayed by {milliseconds} ms")
        return self._arm(NetworkFault(FaultKind.DELAY, _api_keys(api), client_id, times, delay_ms=milliseconds))

    def lose_answers(self, *, api: str | None = None, client_id: str | None = None, times: int | None = 1) -> Fault:
        """Carry requests out, and cut the connection in place of the answer: the client cannot know."""
        return self._arm(NetworkFault(FaultKind.LOSE, _api_keys(api), client_id, times))

    def refuse_requests(
        self, api: str, error: str | int = "REQUEST_TIMED_OUT", *, client_id: str | None = None, times: int | None = 1
    ) -> Fault:
        """Answer requests of this API with an error of Kafka's, by name or number, and do not carry them out."""
        keys = frozenset({_api_key(api, REFUSABLE)})
        return self._arm(NetworkFault(FaultKind.REFUSE, keys, client_id, times, code=_code(error)))

    # -- the disk

    def fail_fsync(self, of: Part = "everything", *, times: int | None = None) -> Fault:
        """Fail flushes with EIO. What has failed takes no records until the node is restarted."""
        return self._break_disk(of, ("flush",), errno.EIO, times=times)

    def slow_fsync(self, milliseconds: int, of: Part = "everything", *, times: int | None = None) -> Fault:
        """Delay each flush."""
        return self._break_disk(of, ("flush",), None, times=times, latency_ms=milliseconds)

    def fill_disk(self, of: Part = "everything") -> Fault:
        """No space is left: what is there can be read, nothing is taken until it is healed."""
        return self._break_disk(of, ("write", "preallocate", "create"), errno.ENOSPC)

    # -- all of it

    def heal(self) -> None:
        """Mend everything; answers that are kept back go out now. What a failed flush has broken stays broken."""
        self.has_broken_disk = False
        self._plan.heal()
        self._on_network(lambda network: network.heal())

    def _refuse(self, is_refusing: bool) -> NetworkFaults:
        def switch(network: NetworkFaults) -> NetworkFaults:
            network.is_refusing = is_refusing
            return network

        return self._on_network(switch)

    def _arm(self, fault: NetworkFault) -> Fault:
        if fault.times is not None and fault.times < 1:
            raise ValueError(f"a fault strikes once or more, not {fault.times} times")
        self._on_network(lambda network: network.add(fault))
        return Fault(lambda: self._on_network(lambda network: network.remove(fault)), lambda: fault.hits)

    def _break_disk(
        self, of: Part, operations: Iterable[str], error: int | None, *, times: int | None = None, latency_ms: int = 0
    ) -> Fault:
        if of not in _GROUPS:
            raise ValueError(f"{of!r} is no part of a node's data; choose {_one_of(_GROUPS)}")
        self.has_broken_disk |= error is not None
        struck = [
            self._plan.add(operation, error, pattern=f"*/groups/{group}/*", times=times, latency_ms=latency_ms)
            for operation in operations
            for group in _GROUPS[of]
        ]
        return Fault(
            lambda: self._plan.replace([fault for fault in self._plan.faults if fault not in struck]),
            lambda: sum(fault.seen if fault.times is None else min(fault.seen, fault.times) for fault in struck),
        )


def _api_keys(api: str | None) -> frozenset[int] | None:
    if api is None:
        return None
    return frozenset({_api_key(api, {entry.name: entry.key for entry in APIS.values()})})


def _api_key(api: str, known: dict[str, int]) -> int:
    if api in known:
        return known[api]
    raise ValueError(f"{api!r} is no API that this switch knows{_nearest(api, known)}; choose {_one_of(known)}")


def _code(error: str | int) -> int:
    try:
        return ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        names = [code.name for code in ErrorCode]
        raise ValueError(f"{error!r} is no error of Kafka's{_nearest(str(error), names)}") from None


def _nearest(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {found[0]}?)" if found else ""


def _one_of(words: Iterable[str]) -> str:
    return ", ".join(words)
