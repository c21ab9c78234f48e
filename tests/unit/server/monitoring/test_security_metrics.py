"""What the page of metrics says of handshakes and refusals."""

import asyncio
import base64
import ssl
from pathlib import Path

import pytest
import trustme
from tests.support.monitored import monitored_node, scrape
from tests.support.revocation import revocation_list
from tests.unit.broker.wire_node import client_of

from hutong.foundation.clock import ManualClock
from hutong.server.configuration.sections.network import KafkaSettings, MetricsSettings
from hutong.server.configuration.sections.security import SecuritySettings, TlsSettings
from hutong.server.embedded import Node
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest


async def test_handshakes_are_counted_and_the_certificate_s_end_is_told(tmp_path: Path) -> None:
    authority = trustme.CA()
    file = tmp_path / "node.pem"
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(file)
    listeners = KafkaSettings(listeners=("PLAINTEXT://127.0.0.1:0", "SSL://127.0.0.1:0"))
    lists, ca = tmp_path / "crl.pem", tmp_path / "ca.pem"
    lists.write_bytes(revocation_list(authority))
    authority.cert_pem.write_to_path(ca)
    tls = TlsSettings(certificate=file, client_ca=ca, crl=lists)
    async with monitored_node(tmp_path / "node", kafka=listeners, tls=tls) as info:
        (port,) = [opened.bound.port for opened in info.listeners if opened.protocol.has_tls]
        context = ssl.create_default_context()
        authority.configure_trust(context)
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        reader, stranger = await asyncio.open_connection("127.0.0.1", port)
        stranger.write(b"GET / HTTP/1.0\r\n\r\n")
        await reader.read()
        families = await scrape(info)
        for each in (writer, stranger):
            each.close()
    assert families["hutong_tls_handshakes_total"].value() == 1
    assert families["hutong_tls_handshakes_failed_total"].value(reason="not_tls") == 1
    for outcome in ("successful", "failed"):
        assert families[f"kafka_server_socket_server_metrics_{outcome}_authentication_total"].value() == 1
    assert families["hutong_tls_certificate_expiry_timestamp_seconds"].value() > 1_700_000_000
    assert families["hutong_tls_crl_expiry_timestamp_seconds"].value() > 1_700_000_000
    assert families["hutong_tls_certificate_loads_total"].value(result="ok") == 0


async def test_metrics_over_tls_are_for_who_has_the_password(tmp_path: Path) -> None:
    authority = trustme.CA()
    file = tmp_path / "node.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(file)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    secured = MetricsSettings(tls_certificate=file, password="secret")

    async def status_of(path: str, header: str = "") -> str:
        assert info.metrics is not None
        reader, writer = await asyncio.open_connection(info.metrics.host, info.metrics.port, ssl=context)
        writer.write(f"GET {path} HTTP/1.0\r\n{header}\r\n".encode())
        answer = (await reader.read()).decode()
        writer.close()
        return answer.split(" ")[1]

    async with monitored_node(tmp_path / "node", bounds=secured) as info:
        assert await status_of("/healthz") == "200"
        assert await status_of("/metrics") == "401"
        token = base64.b64encode(b"prometheus:secret").decode()
        assert await status_of("/metrics", f"Authorization: Basic {token}\r\n") == "200"


async def test_metrics_refuse_a_scraper_whose_certificate_is_revoked(tmp_path: Path) -> None:
    authority = trustme.CA()
    file, ca, lists, mine = (tmp_path / name for name in ("node.pem", "ca.pem", "crl.pem", "scraper.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(file)
    authority.issue_cert("scraper@example.org").private_key_and_cert_chain_pem.write_to_path(mine)
    authority.cert_pem.write_to_path(ca)
    lists.write_bytes(revocation_list(authority, [mine]))
    secured = MetricsSettings(tls_certificate=file, tls_client_ca=ca, tls_crl=lists)
    context = ssl.create_default_context(cafile=str(ca))
    context.load_cert_chain(mine)
    async with monitored_node(tmp_path / "node", bounds=secured) as info:
        assert info.metrics is not None
        reader, writer = await asyncio.open_connection(info.metrics.host, info.metrics.port, ssl=context)
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        with pytest.raises(ssl.SSLError, match="ALERT_CERTIFICATE_REVOKED"):
            await reader.read()
        writer.close()


async def test_the_certificate_of_the_metrics_listener_is_checked_in_its_interval(tmp_path: Path) -> None:
    authority, file, clock = trustme.CA(), tmp_path / "node.pem", ManualClock()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(file)
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def certificate() -> bytes:
        host, _, port = (node.metrics or "").rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return bytes(shown)

    wanted = {"metrics.tls_certificate": str(file), "tls.reload_interval_ms": "60000"}
    async with Node(metrics="127.0.0.1:0", settings=wanted, clock=clock) as node:
        first = await certificate()
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(file)
        for passed_ms, is_first in ((59_000, True), (1_020, False)):
            clock.advance(passed_ms)
            node.runtime.wheel.advance(clock.monotonic_ms())
            assert (await certificate() == first) is is_first


async def test_what_the_acls_refuse_is_counted(tmp_path: Path) -> None:
    async with (
        monitored_node(tmp_path, security=SecuritySettings(authorize=True)) as info,
        client_of(info.kafka) as client,
    ):
        answer = await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7)
        assert answer.topics[0].error_code == 29
        families = await scrape(info)
    denied = families["hutong_authorization_denied_total"]
    assert sum(denied.samples.values()) > 0
    assert {dict(labels)["resource"] for _, labels in denied.samples} == {
        "topic",
        "group",
        "cluster",
        "transactional_id",
        "delegation_token",
        "user",
    }
