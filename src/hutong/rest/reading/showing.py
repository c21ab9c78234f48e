"""Records for answers, in the form that a request asks for: by schemas on another thread, else at once.

Knows nothing of consumers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hutong.rest.reading.shown import SCHEMA, checked_format, record_shown
from hutong.rest.records.encoding import no_registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.bus.durable.records import StoredRecord
    from hutong.rest.gateway import Gateway
    from hutong.rest.reading.shown import Readers
    from hutong.rest.records.decoding import RecordDecoder
    from hutong.web.requests import WebRequest


class RecordViews:
    """The forms of records."""

    def __init__(self, gateway: Gateway, decoder: RecordDecoder) -> None:
        self._gateway = gateway
        self._decoder = decoder

    def form_of(self, request: WebRequest) -> str:
        """The form that a request asks for. Raises WebRefusal: 400, and 422 for schemas without a registry."""
        form = checked_format(request.query.get("format", "auto"), SCHEMA)
        if form == SCHEMA and not self._decoder.is_there:
            raise no_registry()
        return form

    async def shown(self, records: Sequence[StoredRecord], form: str, request: WebRequest) -> list[dict[str, Any]]:
        """The records as objects. Raises WebRefusal(503) where the registry does not answer."""
        if form != SCHEMA:
            return _all_shown(records, form, {})
        readers = await self._decoder.readers(records, request)
        return await self._gateway.blocking(partial(_all_shown, records, form, readers))


def _all_shown(records: Sequence[StoredRecord], form: str, readers: Readers) -> list[dict[str, Any]]:
    return [record_shown(record, form, readers) for record in records]
