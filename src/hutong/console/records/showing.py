"""Records shown: their schemas are asked for on the loop, then they are decoded on another thread.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hutong.console.records.decoding.decode import PayloadDecoder
from hutong.console.records.decoding.schema_form import schema_id_of
from hutong.console.records.shown import shown_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.bus.durable.records import StoredRecord
    from hutong.console.desk import ConsoleDesk
    from hutong.console.records.decoding.shown import SchemaOf
    from hutong.console.records.shown import AskedForms


class RecordShowing:
    """Shows records by the registry of the node, where it has one."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    async def shown(self, records: Sequence[StoredRecord], forms: AskedForms) -> list[dict[str, Any]]:
        """The records as JSON."""
        if not records:
            return []
        decoder = PayloadDecoder(await self.schemas_of(records))
        return await self._desk.blocking(lambda: shown_records(records, decoder, forms))

    async def schemas_of(self, records: Sequence[StoredRecord]) -> SchemaOf | None:
        """The schemas whose ids are in the records; None without a registry."""
        if self._desk.node is None:
            return None
        payloads = [each for record in records for each in (record.key, record.value) if each is not None]
        ids = {found for each in payloads if (found := schema_id_of(each)) is not None}
        schemas = await self._desk.node.schemas(ids)
        return None if schemas is None else schemas.get
