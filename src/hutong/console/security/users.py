"""Routes of users with SCRAM credentials (KIP-554). Passwords go to the brokers, and into no audit and no answer.

Decides nothing: the brokers check rights, names and passwords.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from confluent_kafka.admin import (
    AclOperation,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from hutong.console.limits import PASSWORD_CHARACTERS_MAX, USERS_SHOWN_MAX
from hutong.console.rights import check_right
from hutong.console.routes import ConsoleRoute
from hutong.console.security.names import check_name
from hutong.rest.limits import CALL_S_MAX
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.web.requests import WebRequest

ITERATIONS: Final = 8_192
"""Of a new password; Kafka's own tools have 4096 or 8192."""
_WIRE_NAMES: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_NAMES: Final = {mechanism: name for name, mechanism in _WIRE_NAMES.items()}
_DONE: Final = WebAnswer(204)


class NewPassword(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user's password for one mechanism; the user is made where there is none."""

    name: str
    password: str
    mechanism: str = "SCRAM-SHA-512"

    def __repr__(self) -> str:
        return f"NewPassword(name={self.name!r})"  # no password in a log


class UserPages:
    """The routes of users."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[ConsoleRoute]:
        users = "/api/security/users"
        return [
            ConsoleRoute("GET", users, self.list_users),
            ConsoleRoute("POST", users, self.set_password, changes="user.password"),
            ConsoleRoute("DELETE", f"{users}/{{name}}/{{mechanism}}", self.delete, changes="user.delete"),
        ]

    async def list_users(self, request: WebRequest) -> WebAnswer:
        # librdkafka (2.16) frees a text of its stack, and aborts the process, where the brokers refuse this question as
        # a whole. So nobody without the right gets as far as that.
        await check_right(self._desk, request, AclOperation.DESCRIBE)
        account = await self._desk.account(request)

        def ask() -> Any:
            asked: Any = account.admin.describe_user_scram_credentials(request_timeout=CALL_S_MAX)
            return asked.result(CALL_S_MAX)

        found = await self._desk.blocking(ask)
        users = [
            {
                "name": name,
                "mechanisms": [
                    {"name": _NAMES.get(each.mechanism, "unknown"), "iterations": each.iterations}
                    for each in found[name].scram_credential_infos
                ],
            }
            for name in sorted(found)[:USERS_SHOWN_MAX]
        ]
        return json({"users": users, "truncated": len(found) > len(users)})

    async def set_password(self, request: WebRequest) -> WebAnswer:
        account, body = await self._desk.account(request), request.json(NewPassword)
        check_name(body.name)
        mechanism = _mechanism(body.mechanism)
        if not body.password or len(body.password) > PASSWORD_CHARACTERS_MAX:
            raise WebRefusal(400, f"A password has 1 to {PASSWORD_CHARACTERS_MAX} characters.", 40002)

        def alter() -> Any:
            credential = ScramCredentialInfo(mechanism, ITERATIONS)
            wanted = UserScramCredentialUpsertion(body.name, credential, body.password.encode())
            return account.admin.alter_user_scram_credentials([wanted])

        await self._desk.gateway.one(alter)
        await self._desk.record(request, "user.password", body.name, after={"mechanism": body.mechanism})
        return _DONE

    async def delete(self, request: WebRequest) -> WebAnswer:
        account, name = await self._desk.account(request), check_name(request.text("name"))
        mechanism = request.text("mechanism")
        gone = UserScramCredentialDeletion(name, _mechanism(mechanism))
        await self._desk.gateway.one(partial(account.admin.alter_user_scram_credentials, [gone]))
        await self._desk.record(request, "user.delete", name, before={"mechanism": mechanism})
        return _DONE


def _mechanism(name: str) -> ScramMechanism:
    found = _WIRE_NAMES.get(name)
    if found is None:
        raise WebRefusal(400, f"{name[:50]!r} is no mechanism; there are {' and '.join(_WIRE_NAMES)}.", 40002)
    return found
