"""Certificates that are loaded again when their files change, and files that cannot be used."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import UsageError
from hutong.foundation.timers import TimerWheel
from hutong.server.bridge_settings import certificates_of
from hutong.server.certificates import Certificates
from hutong.server.sections.bus import BridgeSettings
from hutong.server.sections.tls import TlsSettings
from hutong.server.settings import Settings


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
    source = certificates.source(asks_for_certificates=False)
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
    source = certificates.source(asks_for_certificates=False)
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
    certificates = certificates_of(Settings(bridge=section), place.clock, place.wheel)
    assert certificates is not None
    assert certificates.source(asks_for_certificates=True)().verify_mode.name == "CERT_REQUIRED"
    assert certificates_of(Settings(), place.clock, place.wheel) is None


def test_clients_are_asked_for_certificates_only_where_these_say_who_they_are(place: Place) -> None:
    place.settings = replace(place.settings, client_ca=place.ca, client_auth="required")
    certificates = place.certificates()
    asking = certificates.source(asks_for_certificates=True)()
    other = certificates.source(asks_for_certificates=False)()
    assert (asking.verify_mode.name, other.verify_mode.name) == ("CERT_REQUIRED", "CERT_NONE")
    certificates.close()


def test_what_is_missing_is_said(place: Place) -> None:
    place.settings = replace(place.settings, client_auth="required")
    with pytest.raises(UsageError, match=r"needs the authorities in tls\.client_ca"):
        place.certificates()
    place.settings = TlsSettings()
    with pytest.raises(UsageError, match="hutong cert dev"):
        place.certificates()
