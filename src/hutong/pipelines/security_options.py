"""The options that say how a cluster is secured, under Kafka's own names, as values of the client.

Strategy: what would change who is trusted or let in and is not done here is refused, never ignored. No message repeats
the value of an option that may hold a secret. Such a value may stand in the environment instead of the query:
`${env:NAME}`, as Kafka's EnvVarConfigProvider has it (KIP-887), is looked up where the options are read.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.scram import HASHES
from hutong.pipelines.client.security import PLAIN, SaslLogin, Security, Tls

PREFIX = "kafka."
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = (PLAIN, *HASHES)
MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": (PLAIN,),
    "org.apache.kafka.common.security.scram.ScramLoginModule": tuple(HASHES),
}
PEM = "PEM"
NO_PEM = (b"\xfe\xed\xfe\xed", b"\x30")
"""The first bytes of JKS and PKCS 12 files: both are named in options, or found under Kafka's default."""
CONVERT = "convert it to PEM (keytool -importkeystore to PKCS12, then openssl pkcs12 -nodes) and set {type} to PEM"
REFUSED = (
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.engine.factory.class",
    "ssl.provider",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "security.providers",
)
FROM_ENVIRONMENT = re.compile(r"\$\{env:(?:[^:}]*:)?([A-Za-z_]\w*)\}")
WORD = re.compile(r"\s*(?:\"((?:[^\"\\]|\\.)*)\"|([\w.$-]+)|([=;]))", re.DOTALL)
ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def security_of(options: Mapping[str, str]) -> Security:
    """Raises UsageError."""
    protocol = _text(options, "security.protocol", PROTOCOLS[0]).upper()
    if protocol not in PROTOCOLS:
        raise UsageError(f"option kafka.security.protocol is '{protocol}': take one of {', '.join(PROTOCOLS)}")
    for name in REFUSED:
        if _text(options, name):
            raise UsageError(f"option {PREFIX}{name} is not supported: leave it out")
    return Security(
        tls=_tls(options) if protocol.endswith("SSL") else None,
        login=_login(options) if protocol.startswith("SASL") else None,
    )


def _tls(options: Mapping[str, str]) -> Tls:
    checking = _text(options, "ssl.endpoint.identification.algorithm", "https").lower()
    if checking not in ("https", ""):
        raise UsageError(
            f"option kafka.ssl.endpoint.identification.algorithm is '{checking}': take https, or nothing to accept "
            "certificates of any name"
        )
    _check_store(options, "truststore", "ssl.truststore.certificates")
    _check_store(options, "keystore", "ssl.keystore.key")
    certificate, key = _secret(options, "ssl.keystore.certificate.chain"), _secret(options, "ssl.keystore.key")
    if bool(certificate) != bool(key):
        raise UsageError("options kafka.ssl.keystore.certificate.chain and kafka.ssl.keystore.key go together")
    return Tls(
        trusted_path=_text(options, "ssl.truststore.location"),
        trusted_pem=_secret(options, "ssl.truststore.certificates"),
        identity_path=_text(options, "ssl.keystore.location"),
        certificate_pem=certificate,
        key_pem=key,
        key_password=_secret(options, "ssl.key.password"),
        checks_name=bool(checking),
    )


def _check_store(options: Mapping[str, str], store: str, text: str) -> None:
    """A store is a PEM file or text; Java's own formats are refused with advice."""
    location, kind = f"ssl.{store}.location", f"ssl.{store}.type"
    path, reported = _text(options, location), _text(options, kind).upper()
    if path and _text(options, text):
        raise UsageError(f"only one of the options {PREFIX}{location} and {PREFIX}{text} can be given")
    advice = CONVERT.format(type=PREFIX + kind)
    if reported not in ("", PEM):
        raise UsageError(f"option {PREFIX}{kind} is {reported}, which is not read here: {advice}")
    if not path:
        return
    try:
        with Path(path).open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise UsageError(f"option {PREFIX}{location} names {path}: {error.strerror or error}") from error
    if start.startswith(NO_PEM):
        raise UsageError(f"option {PREFIX}{location} names a store of Java, {path}: {advice}")


def _login(options: Mapping[str, str]) -> SaslLogin:
    mechanism = _text(options, "sasl.mechanism", "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        raise UsageError(
            f"option kafka.sasl.mechanism is {mechanism}, which is not done here: take one of {', '.join(MECHANISMS)}"
        )
    name = "sasl.jaas.config"
    given = _text(options, name)
    if not given:
        module = next(name for name, mechanisms in MODULES.items() if mechanism in mechanisms)
        raise UsageError(
            f'option kafka.sasl.jaas.config is missing: give it as {module} required username="..." password="...";'
        )
    is_reference = FROM_ENVIRONMENT.fullmatch(given) is not None
    module, settings = jaas_config(expanded(PREFIX + name, given) if is_reference else given)
    if not is_reference:  # what the environment holds is no text to be read again: it may hold quotes
        settings = {setting: expanded(PREFIX + name, value) for setting, value in settings.items()}
    if mechanism not in MODULES.get(module, ()):
        raise UsageError(
            f"option kafka.sasl.jaas.config names the login module {module}, which is none for {mechanism}: "
            "PLAIN takes PlainLoginModule, SCRAM takes ScramLoginModule"
        )
    if not settings.get("username") or "password" not in settings:
        raise UsageError("option kafka.sasl.jaas.config lacks username or password")
    if settings.get("tokenauth", "false").lower() == "true":
        raise UsageError("option kafka.sasl.jaas.config asks for a delegation token, which is not done here")
    return SaslLogin(mechanism, settings["username"], settings["password"])


def jaas_config(text: str) -> tuple[str, dict[str, str]]:
    """The module and its settings of `MODULE required name="value" ...;`. Raises UsageError, which repeats no value."""
    words = list(_words(text))
    module = words[0][0] if words and not words[0][1] else ""
    if len(words) < 3 or not module or words[1][0] not in ("required", "requisite", "sufficient", "optional"):
        raise _malformed('it begins with a login module and "required"')
    if words[-1] != (";", True):
        raise _malformed('it ends with ";"')
    settings = words[2:-1]
    if len(settings) % 3 or any(sign != ("=", True) for sign in settings[1::3]):
        raise _malformed('after the login module come settings of the form name="value", and only one module')
    return module, {name: value for (name, _), (value, _) in zip(settings[::3], settings[2::3], strict=True)}


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Yield words, each with True for a sign (`=` or `;`)."""
    position = 0
    text = text.strip()
    while position < len(text):
        found = WORD.match(text, position)
        if found is None:
            raise _malformed("values with other characters than letters, digits and _ . $ - stand in double quotes")
        position = found.end()
        quoted, bare, sign = found.groups()
        yield (sign, True) if sign else (bare or ESCAPE.sub(r"\1", quoted or ""), False)


def _malformed(why: str) -> UsageError:
    return UsageError(f"option kafka.sasl.jaas.config is not of Kafka's form: {why}")


def _text(options: Mapping[str, str], name: str, default: str = "") -> str:
    return options.get(PREFIX + name, default).strip()


def _secret(options: Mapping[str, str], name: str) -> str:
    return expanded(PREFIX + name, _text(options, name))


def expanded(name: str, text: str) -> str:
    """The text of the option with names of the environment's variables replaced by what they hold."""

    def held(found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if value is None:
            raise UsageError(f"option {name} refers to the environment variable {found[1]}, which is not set")
        return value

    return FROM_ENVIRONMENT.sub(held, text)
