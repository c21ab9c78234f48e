"""Options of security become values, or one sentence that repeats no secret."""

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.security import SaslLogin, Security, Tls
from hutong.pipelines.option_values import cluster_of
from hutong.pipelines.security_options import jaas_config, security_of

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = "it's a s3cret; =\\\""


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def login(mechanism: str = "SCRAM-SHA-512", module: str = SCRAM, password: str = SECRET) -> dict[str, str]:
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f'{module} required\n  username="ann" password={quoted(password)};',
    }


def test_nothing_told_is_plain_text() -> None:
    assert security_of({}) == Security() == security_of({"kafka.security.protocol": "plaintext"})


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_a_login_is_read(mechanism: str, module: str) -> None:
    assert security_of(login(mechanism, module)) == Security(Tls(), SaslLogin(mechanism, "ann", SECRET))


def test_without_tls_nothing_of_tls_is_used() -> None:
    read = security_of(login() | {"kafka.security.protocol": "SASL_PLAINTEXT"})
    assert read == Security(None, SaslLogin("SCRAM-SHA-512", "ann", SECRET))


def test_secrets_are_not_shown() -> None:
    options = login() | {
        "kafka.bootstrap.servers": "h:1",
        "kafka.ssl.keystore.certificate.chain": "a chain",
        "kafka.ssl.keystore.key": "KEY" + SECRET,
        "kafka.ssl.key.password": "PASS" + SECRET,
    }
    settings = cluster_of(options)
    assert settings.security.login is not None
    assert settings.security.login.password == SECRET
    assert "s3cret" not in repr(settings)
    assert "ann" in repr(settings)


def test_certificates_are_read_from_files_and_text(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "store.pem"
    path.write_text("-----BEGIN CERTIFICATE-----\n")
    by_file = {"kafka.ssl.truststore.location": str(path), "kafka.ssl.keystore.location": str(path)}
    ssl = {"kafka.security.protocol": "SSL", "kafka.ssl.endpoint.identification.algorithm": ""}
    types = {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.keystore.type": "pem"}
    assert security_of(ssl | by_file | types).tls == Tls(str(path), "", str(path), checks_name=False)
    told = security_of(ssl | {"kafka.ssl.truststore.certificates": "a certificate"})
    assert told.tls == Tls(trusted_pem="a certificate", checks_name=False)


def test_a_secret_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    options = login(password="${env:ANNS_PASSWORD}")
    with pytest.raises(UsageError, match="environment variable ANNS_PASSWORD, which is not set"):
        security_of(options)
    monkeypatch.setenv("ANNS_PASSWORD", "hidden")
    assert security_of(options).login == SaslLogin("SCRAM-SHA-512", "ann", "hidden")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"security.protocol": "TLS"}, "take one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": "GSSAPI"}, "GSSAPI, which is not done here"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER, which is not done here"),
        ({"sasl.mechanism": "PLAIN"}, "none for PLAIN"),
        ({"sasl.jaas.config": ""}, 'missing: give it as .*ScramLoginModule required username="..."'),
        ({"sasl.jaas.config": f"{SCRAM} required username=ann;"}, "lacks username or password"),
        ({"sasl.jaas.config": f"{SCRAM} required username=a password=b tokenauth=true;"}, "delegation token"),
        ({"sasl.jaas.config": "s3cret"}, "begins with a login module"),
        ({"sasl.jaas.config": f'{SCRAM} required password="s3cret"'}, 'ends with ";"'),
        ({"sasl.jaas.config": f'{SCRAM} required password "s3cret" x;'}, "of the form name="),
        ({"sasl.jaas.config": f'{SCRAM} required password="s3cret;'}, "stand in double quotes"),
        ({"sasl.jaas.config": f"{SCRAM} required a=s3cret; {SCRAM} required b=c;"}, "only one module"),
        ({"ssl.truststore.type": "JKS"}, "JKS, which is not read here: convert it to PEM"),
        ({"ssl.keystore.type": "PKCS12"}, "ssl.keystore.type is PKCS12"),
        ({"ssl.truststore.location": "/not/there"}, "names /not/there: No such file"),
        ({"ssl.keystore.location": "/x", "ssl.keystore.key": "s3cret"}, "only one of the options"),
        ({"ssl.keystore.key": "s3cret"}, "go together"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "take https, or nothing"),
        ({"ssl.cipher.suites": "X"}, "ssl.cipher.suites is not supported"),
        ({"sasl.login.callback.handler.class": "x.Y"}, "callback.handler.class is not supported"),
    ],
)
def test_what_is_wrong_is_told_without_the_secret(changed: dict[str, str], why: str) -> None:
    options = login() | {f"kafka.{name}": value for name, value in changed.items()}
    with pytest.raises(UsageError, match=why) as told:
        security_of(options)
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize("start", [b"\xfe\xed\xfe\xed\0", b"\x30\x82\x01"])
def test_stores_of_java_are_recognised(tmp_path: pathlib.Path, start: bytes) -> None:
    path = tmp_path / "store.jks"
    path.write_bytes(start)
    with pytest.raises(UsageError, match=r"a store of Java, .*keytool -importkeystore"):
        security_of({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": str(path)})


@given(st.text(), st.text())
def test_values_in_quotes_come_back(user: str, password: str) -> None:
    text = f"{SCRAM} required username={quoted(user)} password={quoted(password)};"
    assert jaas_config(text) == (SCRAM, {"username": user, "password": password})


@given(st.text())
def test_nothing_but_a_usage_error_comes_of_garbage(text: str) -> None:
    with pytest.raises(UsageError):
        jaas_config(text)
