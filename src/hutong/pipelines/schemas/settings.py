"""The address and the credentials for a schema registry: options under the names that Confluent's clients have.

`schema.registry.url` may name several addresses of one registry. A password may stand in the environment, as
`${env:NAME}` (see `security_options`). Knows nothing of schemas.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.security import Tls
from hutong.pipelines.option_values import boolean, names_in
from hutong.pipelines.security_options import expanded

URL = "schema.registry.url"
CREDENTIALS = "schema.registry.basic.auth.user.info"
TRUSTED = "schema.registry.ssl.truststore.location"
AUTO_REGISTER = "auto.register.schemas"
OPTIONS = (URL, CREDENTIALS, TRUSTED, AUTO_REGISTER)
URLS_MAX = 16
NO_OTHER_TRUST = Tls()


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Travels with a query's plan to every worker. Its repr shows no password."""

    urls: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    tls: Tls = NO_OTHER_TRUST


def registry_of(options: Mapping[str, str]) -> RegistrySettings | None:
    """None where no registry is given. Raises UsageError."""
    if URL not in options:
        stray = [name for name in (CREDENTIALS, TRUSTED) if name in options]
        if stray:
            raise UsageError(f"option {stray[0]} is given without {URL}: add the address of the registry")
        return None
    urls = tuple(url.rstrip("/") for url in names_in(options[URL]))
    if not 0 < len(urls) <= URLS_MAX or not all(map(_is_address, urls)):
        raise UsageError(f"option {URL} must be http://HOST:PORT or https://HOST:PORT, or up to {URLS_MAX} with commas")
    user, colon, password = expanded(CREDENTIALS, options.get(CREDENTIALS, "").strip()).partition(":")
    if user and not colon:
        raise UsageError(f"option {CREDENTIALS} is not of the form NAME:PASSWORD")
    return RegistrySettings(urls, user, password, Tls(trusted_path=options.get(TRUSTED, "").strip()))


def registers(options: Mapping[str, str]) -> bool:
    """Return True if a writer may add its schema to the registry."""
    return boolean(options, AUTO_REGISTER, True)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Name and password in the address would end up in errors.
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        return False
