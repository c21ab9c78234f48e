"""`hutong cert dev`: files that OpenSSL takes, keys for their owner alone, an authority that is kept."""

import json
import shlex
import socket
import ssl
import sys
import threading
from pathlib import Path

import pytest

from hutong.cli.main import run
from hutong.foundation.errors import UsageError
from hutong.security.development import DevelopmentAuthority, KeyPair


def shake_hands(authority: Path, server: KeyPair, client: KeyPair | None) -> str:
    """The client's name as the server sees it."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority))
    serving.load_cert_chain(server.certificate, server.key)
    serving.verify_mode = ssl.CERT_REQUIRED if client else ssl.CERT_NONE
    calling = ssl.create_default_context(cafile=str(authority))
    calling.verify_flags |= ssl.VERIFY_X509_STRICT
    if client:
        calling.load_cert_chain(client.certificate, client.key)
    here, there = socket.socketpair()
    called: list[ssl.SSLSocket] = []

    def call() -> None:
        called.append(calling.wrap_socket(there, server_hostname="localhost"))

    thread = threading.Thread(target=call)
    thread.start()
    with here, there, serving.wrap_socket(here, server_side=True) as accepted:
        thread.join()
        certificate = accepted.getpeercert() or {}
    called[0].close()
    return str(certificate.get("subject", ""))


def test_what_it_makes_is_taken_by_both_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "certs"
    assert run(["cert", "dev", str(folder), "--host", "node.example", "--client", "ann", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    server = KeyPair(Path(made["certificate"]), Path(made["key"]))
    ann = KeyPair(**{name: Path(file) for name, file in made["clients"]["ann"].items()})
    assert "ann" in shake_hands(Path(made["ca"]), server, ann)
    assert shake_hands(Path(made["ca"]), server, None) == ""
    for file in folder.iterdir():
        assert file.stat().st_mode & 0o777 == (0o600 if "key" in file.name else 0o644)


def test_the_command_that_it_prints_has_settings_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hutong.cli.node.serve import _parser, flags_of
    from hutong.server.configuration import loader

    assert run(["cert", "dev", str(tmp_path / "c"), "--client", "ann"]) == 0
    words = shlex.split(capsys.readouterr().out)
    assert words[:2] == ["hutong", "serve"]
    settings = loader.load(environment={}, flags=flags_of(_parser().parse_args(words[2:]))).settings
    assert settings.tls.client_auth == "required"
    assert settings.tls.certificate == tmp_path / "c" / "server.pem"


def test_a_second_call_keeps_the_authority(tmp_path: Path) -> None:
    first = DevelopmentAuthority(tmp_path)
    ann = first.client("ann")
    again = DevelopmentAuthority(tmp_path)
    assert (first.is_new, again.is_new) == (True, False)
    assert "ann" in shake_hands(again.files.certificate, again.server(), ann)


def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Cannot use the folder"):
        DevelopmentAuthority(tmp_path / "file")
    authority = DevelopmentAuthority(tmp_path / "certs")
    for name in ("", "../x", "a/b", "x" * 65, ".x"):
        with pytest.raises(UsageError, match="A client's name"):
            authority.client(name)
    authority.files.key.write_text("broken")
    with pytest.raises(UsageError, match="Cannot use the folder"):
        DevelopmentAuthority(tmp_path / "certs")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UsageError, match=r"pip install 'hutong\[certs\]'"):
        DevelopmentAuthority(tmp_path / "other")
