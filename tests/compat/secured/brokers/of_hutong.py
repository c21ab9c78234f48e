"""Hutong nodes with a listener for each door; as TLS and sessions are set for a whole node, some have their own."""

import pathlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

from bench.certificates import Certificates
from tests.compat.secured.rules import DELAY_MS, SCRAM_512, SESSION_MS, WITHOUT_TLS
from tests.support.node import Node

_PROTOCOLS: Final = {"tls": "SSL", "strict": "SSL", "stale": "SSL", "sasl": "SASL_SSL", "short": "SASL_SSL"}
_PROTOCOLS_WITHOUT_TLS: Final = {"plain": "PLAINTEXT", **dict.fromkeys(WITHOUT_TLS, "SASL_PLAINTEXT")}


def open_doors(folder: pathlib.Path, certificates: Certificates, stack: ExitStack) -> Mapping[str, str]:
    """Addresses by door, of nodes that run until `stack` closes. Their plain doors are `plain` and `plain-NAME`."""
    addresses: dict[str, str] = {}

    def start(name: str, doors: tuple[str, ...], *settings: str, shown: pathlib.Path | None = None) -> None:
        protocols = {door: {**_PROTOCOLS, **_PROTOCOLS_WITHOUT_TLS}[door] for door in ("plain", *doors)}
        place = folder / name
        place.mkdir()
        node = Node(
            place,
            f"kafka.listeners={' '.join(f'{door}://127.0.0.1:0' for door in protocols)}",
            f"kafka.listener_protocols={' '.join(f'{door}:{protocol}' for door, protocol in protocols.items())}",
            f"tls.certificate={shown or certificates.server.both}",
            f"tls.client_ca={certificates.authority}",
            "security.authorize=true",
            "security.super_users=User:ANONYMOUS",
            *settings,
            listens=False,
        )
        stack.push(node.start())
        if "metrics" in node.process.fields:
            addresses[f"metrics-{name}"] = node.process.fields["metrics"]
        for told in node.process.fields["listeners"].split(","):
            door, _, address = told.lower().partition("://")
            named = door if door != "plain" or name == "main" else f"plain-{name}"
            addresses[named] = f"localhost:{address.rpartition(':')[2]}"

    delay = f"sasl.failed_authentication_delay_ms={DELAY_MS}"
    session = f"sasl.connections_max_reauth_ms={SESSION_MS}"
    with ThreadPoolExecutor() as together:
        starts = [
            together.submit(
                start,
                "main",
                ("tls", "sasl", "bare"),
                "tls.client_auth=requested",
                "sasl.allow_without_tls=true",
                delay,
            ),
            together.submit(start, "strict", ("strict",), "tls.client_auth=required"),
            together.submit(
                start,
                "stale",
                ("stale", "narrow"),
                "sasl.allow_without_tls=true",
                f"sasl.enabled_mechanisms={SCRAM_512}",
                delay,
                shown=certificates.stale_server.both,
            ),
            together.submit(start, "short", ("short",), session, "metrics.listen=127.0.0.1:0"),
        ]
    for one in starts:
        one.result()
    return addresses
