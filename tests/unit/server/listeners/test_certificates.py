"""Certificates that are loaded again when their files change, and files that cannot be used."""

import logging
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from tests.support.revocation import DAY, revocation_list

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import UsageError
from hutong.foundation.timers import TimerWheel
from hutong.reactor.tls.server_contexts import ClientAuth
from hutong.server.configuration.sections.bus import BridgeSettings
from hutong.server.configuration.sections.security import TlsSettings
from hutong.server.configuration.settings import Settings
from hutong.server.listeners.certificates import Certificates, certificates_of
from hutong.server.listeners.revocation import CRL_BYTES_MAX, CRL_FILES_MAX


class Place:
    def __init__(self, folder: Path) -> None:
        self.clock, self.wheel = ManualClock(), TimerWheel(0)
        self.file, self.ca = folder / "server.pem", folder / "ca.pem"
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(self.ca)
        self.issue()
        self.settings = TlsSettings(certificate=self.file)

    def issue(self) -> None:
        self.authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(self.file)
        self.file.chmod(0o600)

    def certificates(self) -> Certificates:
        made = Certificates(self.settings, self.clock, self.wheel)
        made.watch()
        return made

    def pass_interval(self) -> None:
        self.clock.advance(self.settings.reload_interval_ms + 20)
        self.wheel.advance(self.clock.monotonic_ms())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_changed_files_are_loaded(place: Place) -> None:
    certificates = place.certificates()
    source = certificates.source(ClientAuth.NONE)
    first = source()
    place.pass_interval()
    assert source() is first
    place.issue()
    place.pass_interval()
    assert source() is not first
    assert certificates.reloads_total == 1
    certificates.close()
    assert len(place.wheel) == 0


def test_the_end_of_the_certificate_in_use_is_known(place: Place) -> None:
    certificates = place.certificates()
    assert certificates.expires_at_ms is not None
    assert certificates.expires_at_ms > 1_700_000_000_000
    place.file.write_text("half a certif")
    place.pass_interval()
    assert certificates.expires_at_ms is not None, "what was loaded before is in use"
    certificates.close()


def test_files_that_cannot_be_used_change_nothing(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    certificates = place.certificates()
    source = certificates.source(ClientAuth.NONE)
    first = source()
    place.file.write_text("half a certif")
    with caplog.at_level(logging.ERROR, "hutong.tls"):
        place.pass_interval()
        place.pass_interval()
    assert len(caplog.records) == 1
    assert "What was loaded before stays in use." in caplog.text
    assert source() is first
    place.issue()
    place.pass_interval()
    assert source() is not first
    assert (certificates.reloads_total, certificates.reloads_failed_total) == (1, 1)
    certificates.close()


def test_a_key_that_everybody_can_read_is_warned_of(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.certificates().close()
    assert not caplog.records
    place.file.chmod(0o644)
    place.certificates().close()
    assert "chmod o-r" in caplog.text


def test_bridges_have_certificates_of_their_own(place: Place) -> None:
    section = BridgeSettings(tls_certificate=place.file, tls_client_ca=place.ca)
    certificates = certificates_of(section, place.clock, place.wheel, 5_000)
    assert certificates is not None
    assert certificates.source()().verify_mode.name == "CERT_REQUIRED"
    assert certificates_of(Settings().bridge, place.clock, place.wheel, 5_000) is None


def test_clients_are_asked_for_certificates_only_where_these_say_who_they_are(place: Place) -> None:
    place.settings = replace(place.settings, client_ca=place.ca, client_auth="required")
    certificates = place.certificates()
    asking = certificates.source()()
    other = certificates.source(ClientAuth.NONE)()
    assert (asking.verify_mode.name, other.verify_mode.name) == ("CERT_REQUIRED", "CERT_NONE")
    certificates.close()


class Lists:
    """A folder with revocation lists, and a client's certificate."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.folder = place.file.with_name("crls")
        self.folder.mkdir()
        self.client = place.file.with_name("client.pem")
        place.authority.issue_cert("ann@example.org").private_key_and_cert_chain_pem.write_to_path(self.client)
        (self.folder / "ca.crl").write_bytes(revocation_list(place.authority))
        place.settings = replace(place.settings, client_ca=place.ca, client_auth="required", crl=self.folder)

    def shake(self, context: ssl.SSLContext) -> str:
        """The node's complaint about the client's certificate; empty where it is let in."""
        client = ssl.create_default_context(cafile=str(self.place.ca))
        client.load_cert_chain(self.client)
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        sides = (
            client.wrap_bio(back, there, server_hostname="localhost"),
            context.wrap_bio(there, back, server_side=True),
        )
        for _ in range(3):
            for side in sides:
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLCertVerificationError as error:
                    return error.verify_message
        return ""


def test_lists_of_a_folder_are_loaded_when_they_change(place: Place) -> None:
    lists = Lists(place)
    certificates = place.certificates()
    source = certificates.source()
    assert lists.shake(source()) == ""
    (lists.folder / "later.pem").write_bytes(revocation_list(place.authority, [lists.client], age=DAY / 2))
    place.pass_interval()
    assert lists.shake(source()) == "certificate revoked"
    assert certificates.reloads_total == 1
    certificates.close()


def test_the_end_of_the_lists_is_the_first_authority_s_latest(place: Place) -> None:
    lists = Lists(place)
    (lists.folder / "longer.crl").write_bytes(revocation_list(place.authority, lasts=20 * DAY))
    (lists.folder / "other.crl").write_bytes(revocation_list(trustme.CA(), lasts=10 * DAY))
    certificates = place.certificates()
    assert certificates.crl_expires_at_ms is not None
    days = (certificates.crl_expires_at_ms / 1000 - datetime.now(UTC).timestamp()) / DAY.total_seconds()
    assert 8.5 < days < 9.5
    certificates.close()


def test_bridges_have_lists_of_their_own(place: Place) -> None:
    lists = Lists(place)
    (lists.folder / "ca.crl").write_bytes(revocation_list(place.authority, [lists.client]))
    section = BridgeSettings(tls_certificate=place.file, tls_client_ca=place.ca, tls_crl=lists.folder)
    certificates = certificates_of(section, place.clock, place.wheel, 5_000)
    assert certificates is not None
    assert lists.shake(certificates.source()()) == "certificate revoked"


@pytest.mark.parametrize("fault", ["gone", "half", "empty folder"])
def test_lists_that_cannot_be_used_leave_those_before_in_use(
    place: Place, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    lists = Lists(place)
    file = lists.folder / "ca.crl"
    file.write_bytes(revocation_list(place.authority, [lists.client]))
    if fault != "empty folder":
        place.settings = replace(place.settings, crl=file)
    certificates = place.certificates()
    source = certificates.source()
    if fault == "half":
        file.write_bytes(file.read_bytes()[:100])
    else:
        file.unlink()
    place.pass_interval()
    assert "revocation list" in caplog.text
    assert lists.shake(source()) == "certificate revoked"
    assert certificates.reloads_failed_total == 1
    certificates.close()
    with pytest.raises(UsageError, match="revocation list"):
        place.certificates()


def test_lists_are_bounded(place: Place) -> None:
    lists = Lists(place)
    for number in range(CRL_FILES_MAX):
        (lists.folder / f"{number}.crl").touch()
    with pytest.raises(UsageError, match=f"more than {CRL_FILES_MAX} revocation lists"):
        place.certificates()
    large = lists.folder / "large"
    large.write_bytes(bytes(CRL_BYTES_MAX + 1))
    place.settings = replace(place.settings, crl=large)
    with pytest.raises(UsageError, match=f"more than {CRL_BYTES_MAX} bytes"):
        place.certificates()


def test_listeners_that_ask_differently_have_contexts_of_their_own(place: Place) -> None:
    place.settings = replace(place.settings, client_ca=place.ca)
    certificates = place.certificates()
    sources = {each: certificates.source(each) for each in ClientAuth}
    place.issue()
    place.pass_interval()
    modes = {each: source().verify_mode.name for each, source in sources.items()}
    assert modes == {"none": "CERT_NONE", "requested": "CERT_OPTIONAL", "required": "CERT_REQUIRED"}
    certificates.close()


def test_a_listener_s_own_rule_needs_authorities_too(place: Place) -> None:
    certificates = place.certificates()
    with pytest.raises(UsageError, match=r"required, which needs the authorities in tls\.client_ca"):
        certificates.source(ClientAuth.REQUIRED)
    certificates.close()


def test_what_is_missing_is_said(place: Place) -> None:
    place.settings = replace(place.settings, client_auth="required")
    with pytest.raises(UsageError, match=r"needs the authorities in tls\.client_ca"):
        place.certificates()
    place.settings = TlsSettings()
    with pytest.raises(UsageError, match="hutong cert dev"):
        place.certificates()
