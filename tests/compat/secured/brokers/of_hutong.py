"""Hutong nodes with a listener for each door; as TLS and sessions are set for a whole node, some have their own.

Strategy: a node is started by who first asks for one of its doors, so that a file of tests pays for what it needs.
"""

import pathlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.certificates import Certificates
from tests.compat.secured.rules import DELAY_MS, SCRAM_512, SESSION_MS, WITHOUT_TLS
from tests.support.node import Node

_PROTOCOLS: Final = {
    **dict.fromkeys(("tls", "strict", "stale"), "SSL"),
    **dict.fromkeys(("sasl", "short"), "SASL_SSL"),
    **dict.fromkeys(WITHOUT_TLS, "SASL_PLAINTEXT"),
    "plain": "PLAINTEXT",
}
_DELAY: Final = f"sasl.failed_authentication_delay_ms={DELAY_MS}"
_BARE: Final = "sasl.allow_without_tls=true"


@dataclass(frozen=True, slots=True)
class _Plan:
    """A node: its doors beside the plain one, and its settings."""

    doors: tuple[str, ...]
    settings: tuple[str, ...] = ()
    is_stale: bool = False


_PLANS: Final = {
    "main": _Plan(("tls", "sasl", "bare"), ("tls.client_auth=requested", _BARE, _DELAY)),
    "strict": _Plan(("strict",), ("tls.client_auth=required",)),
    "stale": _Plan(("stale", "narrow"), (_BARE, _DELAY, f"sasl.enabled_mechanisms={SCRAM_512}"), is_stale=True),
    "short": _Plan(("short",), (f"sasl.connections_max_reauth_ms={SESSION_MS}", "metrics.listen=127.0.0.1:0")),
}


class Doors(Mapping[str, str]):
    """Addresses by door. The plain doors are `plain` and `plain-NAME`; a page of metrics is `metrics-NAME`.

    `furnish` is called with the plain door of each node that is started; nodes run until `stack` closes.
    """

    def __init__(
        self, folder: pathlib.Path, certificates: Certificates, stack: ExitStack, furnish: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._certificates = certificates
        self._stack = stack
        self._furnish = furnish
        self._addresses: dict[str, str] = {}

    def __getitem__(self, door: str) -> str:
        if door not in self._addresses:
            self._start(_node_of(door))
        return self._addresses[door]

    def __iter__(self) -> Iterator[str]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    def _start(self, name: str) -> None:
        plan, files = _PLANS[name], self._certificates
        protocols = {door: _PROTOCOLS[door] for door in ("plain", *plan.doors)}
        place = self._folder / name
        place.mkdir()
        node = Node(
            place,
            f"kafka.listeners={' '.join(f'{door}://127.0.0.1:0' for door in protocols)}",
            f"kafka.listener_protocols={' '.join(f'{door}:{protocol}' for door, protocol in protocols.items())}",
            f"tls.certificate={(files.stale_server if plan.is_stale else files.server).both}",
            f"tls.client_ca={files.authority}",
            "security.authorize=true",
            "security.super_users=User:ANONYMOUS",
            *plan.settings,
            listens=False,
        )
        self._stack.enter_context(node)
        opened = dict(told.lower().split("://") for told in node.process.fields["listeners"].split(","))
        found = {door: f"localhost:{address.rpartition(':')[2]}" for door, address in opened.items()}
        plain = found.pop("plain")
        self._furnish(plain)
        found["plain" if name == "main" else f"plain-{name}"] = plain
        if "metrics" in node.process.fields:
            found[f"metrics-{name}"] = node.process.fields["metrics"]
        self._addresses |= found


def _node_of(door: str) -> str:
    if door == "plain":
        return "main"
    named = door.partition("-")[2]
    if named in _PLANS:
        return named
    return next(name for name, plan in _PLANS.items() if door in plan.doors)
