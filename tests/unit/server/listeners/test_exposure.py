"""Listeners that others than this machine reach: refused without TLS, unless somebody has said that they may be."""

import asyncio
import logging
from pathlib import Path

import pytest
import trustme

import hutong
from hutong.foundation.errors import UsageError
from hutong.reactor.accept.exposure import is_local
from hutong.server.configuration import loader
from hutong.server.listeners.exposure import check_bridges, check_broker, check_metrics

EVERYWHERE = "0.0.0.0:0"


def checked(*flags: str) -> None:
    settings = loader.load(environment={}, flags=dict(flag.split("=", 1) for flag in flags)).settings
    check_broker(settings)
    check_metrics(settings)
    check_bridges(settings)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example", False),
        ("node", False),
    ],
)
def test_what_is_local(host: str, expected: bool) -> None:
    assert is_local(host) is expected


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("kafka", [f"kafka.listen={EVERYWHERE}"]),
        ("kafka", ["kafka.listeners=PLAINTEXT://127.0.0.1:0 SASL_PLAINTEXT://10.0.0.1:9092"]),
        ("metrics", [f"metrics.listen={EVERYWHERE}"]),
        ("tcp-bridge", [f"tcp_bridge.listen={EVERYWHERE}"]),
        ("sockjs", [f"sockjs.listen={EVERYWHERE}"]),
    ],
)
def test_a_plain_listener_is_refused(kind: str, flags: list[str], caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UsageError, match=f"--allow-plain {kind}") as caught:
        checked(*flags)
    assert caught.value.exit_code == 78
    others = "grpc" if kind == "kafka" else "kafka"
    with pytest.raises(UsageError):
        checked(*flags, f"security.allow_plain={others}")
    for allowed in (kind, "all"):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            checked(*flags, f"security.allow_plain={allowed}")
        assert "open to the network without TLS" in caplog.text


def test_listeners_of_this_machine_and_encrypted_ones_are_fine(caplog: pytest.LogCaptureFixture) -> None:
    checked("metrics.listen=localhost:0", "tcp_bridge.listen=127.0.0.1:0", "sockjs.listen=[::1]:0")
    checked(f"tcp_bridge.listen={EVERYWHERE}", "bridge.tls_certificate=x.pem")
    checked("kafka.listeners=PLAINTEXT://127.0.0.1:0 SASL_SSL://0.0.0.0:9093")
    checked("kafka.listeners=SSL://0.0.0.0:9093", "tls.client_auth=required")
    assert not caplog.records


def test_tls_that_keeps_nobody_out_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    checked("kafka.listeners=SSL://0.0.0.0:9093")
    assert "lets in everybody who reaches it" in caplog.text


def test_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="choose from kafka, rocketmq, http, schema-registry, console, metrics"):
        checked("security.allow_plain=everything")


@pytest.mark.parametrize("kind", ["kafka", "rpc", "grpc", "tcp_bridge", "sockjs"])
def test_a_node_inside_a_program_is_no_exception(kind: str, tmp_path: Path) -> None:
    async def start(**options: object) -> None:
        async with hutong.Node(**{kind: EVERYWHERE, **options}):  # type: ignore[arg-type]
            pass

    with pytest.raises(UsageError, match="open to the network without TLS"):
        asyncio.run(start())
    asyncio.run(start(allow_plain=(kind.replace("_", "-"),)))


def test_services_over_tls_need_no_consent(tmp_path: Path) -> None:
    from hutong.rpc.grpc import GrpcTls

    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")

    async def start() -> None:
        async with hutong.Node(grpc=EVERYWHERE, grpc_tls=GrpcTls(tmp_path / "server.pem")):
            pass

    asyncio.run(start())
