"""Principals from client certificates, as Kafka's DefaultKafkaPrincipalBuilder derives them.

Knows nothing of TLS: OpenSSL has verified the certificate before.
"""

from hutong.foundation.errors import ProtocolError
from hutong.security.distinguished_names import subject_of
from hutong.security.principal_mapping import PrincipalMapping
from hutong.security.principals import ANONYMOUS, USER, Principal


class CertificatePrincipals:
    """`rules` are those of ssl.principal.mapping.rules. Raises UsageError where they are wrong."""

    def __init__(self, rules: str) -> None:
        self._mapping = PrincipalMapping(rules)

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return the certificate's principal, ANONYMOUS without a certificate.

        Raises ProtocolError if no rule maps the subject: the connection must then be refused.
        """
        if certificate is None:
            return ANONYMOUS
        subject = subject_of(certificate)
        name = self._mapping.name_of(subject)
        if name is None:
            raise ProtocolError(f"no rule maps its certificate's subject {subject[:200]!r}")
        return Principal(USER, name)
