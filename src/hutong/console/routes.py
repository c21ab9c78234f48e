"""Routes of the console, and the form of its refusals.

Knows nothing of sessions.
"""

from dataclasses import dataclass
from typing import Final

from hutong.web.answers import JSON, WebAnswer, WebRefusal, json
from hutong.web.routes import WebHandler

API: Final = "/api/"
UNAUTHENTICATED: Final = 40101
FORGED: Final = 40302
READ_ONLY: Final = 40303


@dataclass(frozen=True, slots=True)
class ConsoleRoute:
    """One method of one path below `/api/`.

    `changes` names what a request changes, as `topic.create`; None for one that only reads. A POST that only reads,
    as a preview, has None, too.
    """

    method: str
    pattern: str
    handler: WebHandler
    changes: str | None = None
    takes: tuple[str, ...] = (JSON,)
    needs_session: bool = True


def refused(refusal: WebRefusal) -> WebAnswer:
    """The refusal as the pages expect it."""
    body = {"error": {"code": refusal.code, "message": refusal.message}}
    return json(body, refusal.status, headers=refusal.headers)
