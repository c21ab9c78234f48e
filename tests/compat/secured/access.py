"""How a client reaches a secured node: one value, and what each kind of client calls its parts.

Knows nothing of who listens there.
"""

import pathlib
import ssl
from dataclasses import dataclass
from typing import Any

from bench.certificates import Identity


@dataclass(frozen=True, slots=True)
class Access:
    """An address, whom to believe and who one is. No authority: without TLS; no mechanism: without SASL."""

    bootstrap: str
    authority: pathlib.Path | None = None
    identity: Identity | None = None
    mechanism: str = ""
    user: str = ""
    password: str = ""

    @property
    def protocol(self) -> str:
        carried = "SSL" if self.authority else "PLAINTEXT"
        return f"SASL_{carried}" if self.mechanism else carried

    def librdkafka(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.authority:
            settings["ssl.ca.location"] = str(self.authority)
        if self.identity:
            settings["ssl.certificate.location"] = str(self.identity.certificate)
            settings["ssl.key.location"] = str(self.identity.key)
        if self.mechanism:
            settings |= {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password}
        return settings

    def kafka_python(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if self.authority:
            settings["ssl_cafile"] = str(self.authority)
        if self.identity:
            settings["ssl_certfile"] = str(self.identity.certificate)
            settings["ssl_keyfile"] = str(self.identity.key)
        return settings | self._sasl_of_python()

    def aiokafka(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if self.authority:
            settings["ssl_context"] = self.ssl_context()
        return settings | self._sasl_of_python()

    def java(self) -> dict[str, str]:
        """Properties of Java's clients and Kafka's tools."""
        settings = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.authority:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        if self.identity:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.identity.both)}
        if self.mechanism:
            kind = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
            module = f"org.apache.kafka.common.security.{kind}"
            settings["sasl.mechanism"] = self.mechanism
            settings["sasl.jaas.config"] = f'{module} required username="{self.user}" password="{self.password}";'
        return settings

    def words(self) -> dict[str, str]:
        """For the programs in Go and JavaScript."""
        return {
            "bootstrap": self.bootstrap,
            "authority": str(self.authority or ""),
            "certificate": str(self.identity.certificate) if self.identity else "",
            "key": str(self.identity.key) if self.identity else "",
            "mechanism": self.mechanism,
            "user": self.user,
            "password": self.password,
        }

    def ssl_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.identity:
            context.load_cert_chain(self.identity.certificate, self.identity.key)
        return context

    def _sasl_of_python(self) -> dict[str, Any]:
        if not self.mechanism:
            return {}
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }
