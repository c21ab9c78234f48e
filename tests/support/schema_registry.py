"""A schema registry without a broker: its topic is a list of records, its worker the caller."""

from collections.abc import Sequence
from types import SimpleNamespace

import msgspec
from tests.support.web_client import WebClient, request

from hutong.foundation.errors import ProtocolError
from hutong.registry import routes
from hutong.registry.machine import RegistryMachine
from hutong.registry.records import RawRecord, decode_record
from hutong.registry.rights import ClientAuthorizer, SubjectRights
from hutong.registry.routes import RegistryRoutes
from hutong.registry.service import RegistryService
from hutong.registry.writer import RegistryWriter
from hutong.runtime.threads.offload import InlineOffload


class ListedLog:
    """The topic as a list; whatever is in it is applied when the registry catches up."""

    def __init__(self, records: Sequence[RawRecord] = ()) -> None:
        self.records = list(records)
        self.machine = RegistryMachine()
        self._read = 0

    async def catch_up(self) -> None:
        for key, value in self.records[self._read :]:
            try:
                change = decode_record(key, value)
            except ProtocolError:
                continue
            if change is not None:
                self.machine.apply(change)
        self._read = len(self.records)
        self.machine.check_invariants()

    async def refreshed(self) -> bool:
        return False

    async def settled(self) -> RegistryMachine:
        await self.catch_up()
        return self.machine

    async def append(self, records: Sequence[RawRecord]) -> None:
        self.records += records
        await self.catch_up()

    def compacted(self) -> list[RawRecord]:
        """As the cleaner leaves it: the last record of each key."""
        return list({key: (key, value) for key, value in self.records}.values())


class RegistryClient:
    """Asks a registry by requests as they are on the wire. Make it inside of a loop."""

    def __init__(self, records: Sequence[RawRecord] = (), authorizer: ClientAuthorizer | None = None) -> None:
        self.log = ListedLog(records)
        service = RegistryService(self.log, InlineOffload())
        writer = RegistryWriter(self.log, service)
        rights = SubjectRights(authorizer or SimpleNamespace(is_on=False))
        self.web = WebClient(RegistryRoutes(service, writer.carry_out, rights, "cluster", "1").routes)
        self.web.driver.refused = routes.refused

    async def ask(
        self, method: str, target: str, body: object = None, content_type: str = routes.CONTENT_TYPE
    ) -> object:
        """The decoded answer; one that refuses is a pair of status and error code."""
        self.web.answers = b""
        data = b"" if body is None else msgspec.json.encode(body)
        await self.web.send(request(method, target, data, content_type))
        (status,) = self.web.statuses
        answer = msgspec.json.decode(self.web.body)
        if status == 200:
            return answer
        assert set(answer) == {"error_code", "message"}, answer
        assert answer["message"]
        return status, answer["error_code"]

    async def register(self, subject: str, schema: object, query: str = "", **members: object) -> object:
        text = schema if isinstance(schema, str) else msgspec.json.encode(schema).decode()
        return await self.ask("POST", f"/subjects/{subject}/versions{query}", {"schema": text, **members})
