"""One request to a schema registry over HTTP: the addresses are tried in turn until one answers.

Knows nothing of what is asked.
"""

import base64
import http.client
from urllib.parse import urlsplit

from hutong.pipelines.client.tls import context_of
from hutong.pipelines.errors import Unavailable
from hutong.pipelines.schemas.settings import RegistrySettings

TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 8 * 2**20
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


def exchange(settings: RegistrySettings, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
    """Status and body of the answer. Raises Unavailable; UsageError for certificates that cannot be read."""
    reasons: list[str] = []
    for url in settings.urls:
        try:
            status, answer = _ask(settings, url, method, path, body)
        except (OSError, http.client.HTTPException) as error:
            reasons.append(f"{url}: {error or type(error).__name__}")
            continue
        # A node in trouble, or a proxy before one that is down: another node may answer.
        if status < 500:
            return status, answer
        reasons.append(f"{url}: status {status}")
    raise Unavailable(f"the schema registry does not answer ({'; '.join(reasons)})")


def _ask(settings: RegistrySettings, url: str, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = _connection(settings, url)
    try:
        connection.request(method, parts.path + path, body, _headers(settings))
        answer = connection.getresponse()
        content = answer.read(ANSWER_BYTES_MAX + 1)
        if len(content) > ANSWER_BYTES_MAX:
            raise http.client.HTTPException(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        return answer.status, content
    finally:
        connection.close()


def _connection(settings: RegistrySettings, url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    assert parts.hostname is not None
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
    context = context_of(settings.tls)
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_S, context=context)


def _headers(settings: RegistrySettings) -> dict[str, str]:
    headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
    if settings.user:
        login = base64.b64encode(f"{settings.user}:{settings.password}".encode()).decode()
        headers["Authorization"] = f"Basic {login}"
    return headers
