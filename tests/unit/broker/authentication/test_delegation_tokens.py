"""Delegation tokens on a node: made, renewed, ended and described, by whom, and what a login by one may do."""

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.scram_client import ScramClient
from tests.unit.broker.wire_node import WireClient, client_of

from hutong import Node
from hutong.broker.authentication.delegation_tokens import RENEWERS_MAX
from hutong.foundation.clock import SystemClock
from hutong.server.configuration.loader import parse_address
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeRequest
from hutong.wire.kafka.apis.k30_create_acls import AclCreation, CreateAclsRequest
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from hutong.wire.kafka.apis.k38_create_delegation_token import CreateDelegationTokenRequest
from hutong.wire.kafka.apis.k39_renew_delegation_token import RenewDelegationTokenRequest
from hutong.wire.kafka.apis.k40_expire_delegation_token import ExpireDelegationTokenRequest
from hutong.wire.kafka.apis.k41_describe_delegation_token import DescribeDelegationTokenRequest
from hutong.wire.kafka.apis.shared import TokenPrincipal
from hutong.wire.kafka.error_codes import ErrorCode

KEY: Final = "of the cluster"
DAY_MS: Final = 86_400_000
PASSWORDS: Final = dict.fromkeys(("alice", "bob", "carol", "admin"), "s3cret")
SETTINGS: Final = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "sasl.failed_authentication_delay_ms": "0",
    "security.authorize": "true",
    "security.super_users": "User:admin",
    "delegation_token.secret_key": KEY,
}


class WallClock(SystemClock):
    """The machine's clock, except for the time that people read."""

    def __init__(self) -> None:
        self._wall_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, milliseconds: int) -> None:
        self._wall_ms += milliseconds


class Place:
    """A node, and clients that have logged in."""

    def __init__(self, node: Node) -> None:
        assert node.kafka is not None
        self._address = parse_address(node.kafka)

    @asynccontextmanager
    async def user(self, name: str) -> AsyncIterator[WireClient]:
        async with client_of(self._address) as client:
            await client.ask(SaslHandshakeRequest("PLAIN"), 1)
            answer = await client.ask(SaslAuthenticateRequest(f"\0{name}\0{PASSWORDS[name]}".encode()), 2)
            assert answer.error_code == 0
            yield client

    @asynccontextmanager
    async def by_token(self, token_id: str, secret: bytes) -> AsyncIterator[tuple[WireClient, Any]]:
        """A client with the answer to its login."""
        async with client_of(self._address) as client:
            await client.ask(SaslHandshakeRequest("SCRAM-SHA-256"), 1)
            scram = ScramClient("sha256", token_id, base64.b64encode(secret))
            scram._bare += ",tokenauth=true"
            challenge = await client.ask(SaslAuthenticateRequest(scram.first()), 2)
            yield client, await client.ask(SaslAuthenticateRequest(scram.final(challenge.auth_bytes)), 2)


@pytest.fixture
def clock() -> WallClock:
    return WallClock()


@asynccontextmanager
async def place_of(folder: Path, clock: WallClock, **settings: str) -> AsyncIterator[Place]:
    async with Node(folder, settings=SETTINGS | settings, users=PASSWORDS, clock=clock) as node:
        yield Place(node)


async def create(client: WireClient, *renewers: str, life_ms: int = -1, owner: str | None = None) -> Any:
    asked = [TokenPrincipal("User", renewer) for renewer in renewers]
    return await client.ask(CreateDelegationTokenRequest("User", owner, asked, life_ms), 3)


async def described(client: WireClient, *owners: str) -> list[str]:
    asked = [TokenPrincipal("User", owner) for owner in owners] or None
    answer = await client.ask(DescribeDelegationTokenRequest(asked), 3)
    assert answer.error_code == 0
    return [token.token_id for token in answer.tokens]


async def test_a_token_logs_in_as_its_owner_until_it_ends(tmp_path: Path, clock: WallClock) -> None:
    async with place_of(tmp_path, clock) as place, place.user("alice") as alice:
        token = await create(alice)
        assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "alice")
        assert token.hmac == hmac.new(KEY.encode(), token.token_id.encode(), hashlib.sha512).digest()
        assert token.expiry_timestamp_ms == token.issue_timestamp_ms + DAY_MS
        assert token.max_timestamp_ms == token.issue_timestamp_ms + 7 * DAY_MS
        async with place.by_token(token.token_id, token.hmac) as (client, answer):
            assert (answer.error_code, answer.session_lifetime_ms) == (0, DAY_MS)
            # A token makes no tokens, and shows none.
            assert (await create(client)).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            asked = await client.ask(DescribeDelegationTokenRequest(None), 3)
            assert asked.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            for request in (RenewDelegationTokenRequest(token.hmac, 1), ExpireDelegationTokenRequest(token.hmac, -1)):
                answer = await client.ask(request, 2)
                assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert (await client.ask(MetadataRequest([]), 9)).brokers
        clock.advance(DAY_MS)
        async with place.by_token(token.token_id, token.hmac) as (_, answer):
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    # Ended tokens are forgotten by later ones, and tokens outlive the node.
    async with place_of(tmp_path, clock) as place, place.user("alice") as alice:
        assert await described(alice) == []
        second = await create(alice)
    async with place_of(tmp_path, clock) as place, place.user("alice") as alice:
        assert await described(alice) == [second.token_id]


async def test_a_wrong_hmac_and_an_unknown_token(tmp_path: Path, clock: WallClock) -> None:
    async with place_of(tmp_path, clock) as place, place.user("alice") as alice:
        token = await create(alice)
        for token_id, secret in ((token.token_id, b"?"), ("unknown", token.hmac), ("alice", b"s3cret")):
            async with place.by_token(token_id, secret) as (_, answer):
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_owner_and_renewers_renew_and_end_a_token(tmp_path: Path, clock: WallClock) -> None:
    async with place_of(tmp_path, clock) as place, place.user("alice") as alice, place.user("bob") as bob:
        token = await create(alice, "bob", life_ms=2 * DAY_MS)
        assert token.max_timestamp_ms == token.issue_timestamp_ms + 2 * DAY_MS
        clock.advance(DAY_MS // 2)
        for client, period_ms, expected_ms in ((bob, 1_000, 1_000), (alice, -1, DAY_MS), (bob, 2 * DAY_MS, DAY_MS)):
            answer = await client.ask(RenewDelegationTokenRequest(token.hmac, period_ms), 2)
            assert (answer.error_code, answer.expiry_timestamp_ms) == (0, clock.wall_ms() + expected_ms)
        clock.advance(DAY_MS - 1)
        answer = await bob.ask(RenewDelegationTokenRequest(token.hmac, -1), 2)
        assert answer.expiry_timestamp_ms == token.max_timestamp_ms
        async with place.user("carol") as carol:
            for request in (RenewDelegationTokenRequest(token.hmac, 1), ExpireDelegationTokenRequest(token.hmac, -1)):
                answer = await carol.ask(request, 2)
                assert answer.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
                assert answer.expiry_timestamp_ms == -1
        answer = await bob.ask(ExpireDelegationTokenRequest(token.hmac, 5), 2)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (0, clock.wall_ms() + 5)
        clock.advance(5)
        for request in (RenewDelegationTokenRequest(token.hmac, 1), ExpireDelegationTokenRequest(token.hmac, 1)):
            assert (await bob.ask(request, 2)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        answer = await bob.ask(ExpireDelegationTokenRequest(token.hmac, -1), 2)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (0, clock.wall_ms())
        answer = await bob.ask(ExpireDelegationTokenRequest(token.hmac, -1), 2)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_who_sees_a_token(tmp_path: Path, clock: WallClock) -> None:
    async with (
        place_of(tmp_path, clock) as place,
        place.user("alice") as alice,
        place.user("bob") as bob,
        place.user("carol") as carol,
        place.user("admin") as admin,
    ):
        first, second = await create(alice, "bob"), await create(alice)
        both = [first.token_id, second.token_id]
        assert await described(alice) == await described(admin) == both
        assert await described(bob) == [first.token_id]
        assert await described(carol) == []
        assert await described(admin, "bob") == [first.token_id]
        assert await described(admin, "carol") == []
        assert (await admin.ask(DescribeDelegationTokenRequest([]), 3)).tokens == []
        # DESCRIBE of the token, then DESCRIBE_TOKENS of the owner (KIP-373).
        for kind, name, operation, seen in ((6, second.token_id, 8, both[1:]), (7, "User:alice", 14, both)):
            rule = AclCreation(kind, name, 3, "User:carol", "*", operation, 3)
            assert (await admin.ask(CreateAclsRequest([rule]), 3)).results[0].error_code == 0
            assert await described(carol) == seen


async def test_tokens_for_another_user(tmp_path: Path, clock: WallClock) -> None:
    async with place_of(tmp_path, clock) as place, place.user("admin") as admin, place.user("bob") as bob:
        refused = await create(bob, owner="alice")
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.token_id, refused.hmac, refused.principal_name) == ("", b"", "alice")
        rule = AclCreation(7, "User:alice", 3, "User:bob", "*", 13, 3)
        assert (await admin.ask(CreateAclsRequest([rule]), 3)).results[0].error_code == 0
        token = await create(bob, owner="alice")
        assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "bob")
        # The requester may renew what it has asked for.
        assert (await bob.ask(RenewDelegationTokenRequest(token.hmac, -1), 2)).error_code == 0


async def test_principals_that_are_refused(tmp_path: Path, clock: WallClock) -> None:
    async with place_of(tmp_path, clock) as place, place.user("admin") as admin:
        for principal, code in (
            (TokenPrincipal("Group", "a"), ErrorCode.INVALID_PRINCIPAL_TYPE),
            (TokenPrincipal("", ""), ErrorCode.INVALID_PRINCIPAL_TYPE),
            (TokenPrincipal("User", ""), ErrorCode.INVALID_REQUEST),
            (TokenPrincipal("User", "a" * 2000), ErrorCode.INVALID_REQUEST),
        ):
            answer = await admin.ask(CreateDelegationTokenRequest(None, None, [principal], -1), 3)
            assert answer.error_code == code
        answer = await admin.ask(CreateDelegationTokenRequest("Node", "cluster", [], -1), 3)
        assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        answer = await create(admin, *(str(number) for number in range(RENEWERS_MAX + 1)))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        answer = await create(admin, life_ms=2**63 - 1)
        assert answer.max_timestamp_ms == clock.wall_ms() + 7 * DAY_MS
        for request in (
            RenewDelegationTokenRequest(answer.hmac, 2**63 - 1),
            ExpireDelegationTokenRequest(answer.hmac, 2**63 - 1),
        ):
            assert (await admin.ask(request, 2)).error_code == 0
        for unknown in (b"", b"?", b"x" * 100_000):
            answer = await admin.ask(RenewDelegationTokenRequest(unknown, 1), 2)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_without_a_key_there_are_none(tmp_path: Path, clock: WallClock) -> None:
    async with (
        place_of(tmp_path, clock, **{"delegation_token.secret_key": ""}) as place,
        place.user("alice") as alice,
    ):
        assert (await create(alice)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        for request, version in (
            (RenewDelegationTokenRequest(b"?", 1), 2),
            (ExpireDelegationTokenRequest(b"?", 1), 2),
            (DescribeDelegationTokenRequest(None), 3),
        ):
            assert (await alice.ask(request, version)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
