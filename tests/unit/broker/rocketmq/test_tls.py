"""TLS on the port of RocketMQ's clients: alone, or as each connection begins."""

import ssl
from pathlib import Path

import pytest
from tests.support.pem_files import PemFiles
from tests.unit.broker.rocketmq.scene import RocketClient, rocketmq_client, rocketmq_node

from hutong.foundation.errors import UsageError
from hutong.remoting.errors import RemotingError
from hutong.security.certificate_principals import CertificatePrincipals
from hutong.server.configuration.sections.rocketmq import RocketMqSettings
from hutong.server.configuration.sections.security import SecuritySettings
from hutong.server.configuration.settings import Address, Settings
from hutong.server.listeners.exposure import check_rocketmq
from hutong.wire.rocketmq.codes import ResponseCode

HOST = "127.0.0.1"


@pytest.fixture
def files(tmp_path: Path) -> PemFiles:
    return PemFiles(tmp_path / "node-files", HOST)


async def stored(client: RocketClient) -> bool:
    return (await client.send(b"x")).code == ResponseCode.SUCCESS


def listening(files: PemFiles, **more: object) -> RocketMqSettings:
    return RocketMqSettings(
        listen=Address(HOST, 0),
        tls_certificate=files.certificate,
        tls_key=files.key,
        **more,  # type: ignore[arg-type]
    )


async def test_a_listener_with_tls_takes_nothing_else(tmp_path: Path, files: PemFiles) -> None:
    trusting = ssl.create_default_context(cafile=str(files.ca))
    async with rocketmq_node(tmp_path / "data", rocketmq=listening(files)) as scene:
        async with rocketmq_client(scene.address, trusting) as client:
            assert await stored(client)
        async with rocketmq_client(scene.address) as plain:
            with pytest.raises(RemotingError):
                await plain.send(b"x")


async def test_a_permissive_listener_takes_both(tmp_path: Path, files: PemFiles) -> None:
    trusting = ssl.create_default_context(cafile=str(files.ca))
    async with (
        rocketmq_node(tmp_path / "data", rocketmq=listening(files, tls_mode="permissive")) as scene,
        rocketmq_client(scene.address, trusting) as client,
        rocketmq_client(scene.address) as plain,
    ):
        assert await stored(client)
        assert await stored(plain)


async def test_a_client_shows_a_certificate_where_it_must(tmp_path: Path, files: PemFiles) -> None:
    stranger = ssl.create_default_context(cafile=str(files.ca))
    known = ssl.create_default_context(cafile=str(files.ca))
    own = PemFiles(tmp_path / "client-files", "client", authority=files.authority)
    known.load_cert_chain(own.certificate, own.key)
    async with rocketmq_node(tmp_path / "data", rocketmq=listening(files, tls_client_ca=files.ca)) as scene:
        async with rocketmq_client(scene.address, known) as client:
            assert await stored(client)
        with pytest.raises(RemotingError):
            async with rocketmq_client(scene.address, stranger) as client:
                await client.send(b"x")


async def test_the_owner_of_a_certificate_has_rights(tmp_path: Path, files: PemFiles) -> None:
    trusting = {}
    for name in ("ann", "bob"):
        trusting[name] = ssl.create_default_context(cafile=str(files.ca))
        own = PemFiles(tmp_path / name, name, authority=files.authority)
        trusting[name].load_cert_chain(own.certificate, own.key)
    certificate = ssl.PEM_cert_to_DER_cert((tmp_path / "ann" / "node.pem").read_text())
    principal = CertificatePrincipals("DEFAULT").principal_of(certificate)
    security = SecuritySettings(authorize=True, super_users=(str(principal),))
    section = listening(files, tls_client_ca=files.ca)
    async with (
        rocketmq_node(tmp_path / "data", rocketmq=section, security=security) as scene,
        rocketmq_client(scene.address, trusting["ann"]) as ann,
        rocketmq_client(scene.address, trusting["bob"]) as bob,
    ):
        assert await stored(ann)
        assert (await bob.send(b"x")).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(("mode", "is_open"), [("enforcing", False), ("permissive", True)])
def test_a_listener_that_also_takes_plain_connections_is_open(files: PemFiles, mode: str, is_open: bool) -> None:
    section = RocketMqSettings(listen=Address("0.0.0.0", 9876), tls_certificate=files.certificate, tls_mode=mode)
    if is_open:
        with pytest.raises(UsageError, match="--allow-plain rocketmq"):
            check_rocketmq(Settings(rocketmq=section))
        section_allowed = Settings(rocketmq=section, security=SecuritySettings(allow_plain=("rocketmq",)))
        check_rocketmq(section_allowed)
    else:
        check_rocketmq(Settings(rocketmq=section))
