"""Sessions that end, on the wire: a producer that is answered by the short way is cut off too."""

from pathlib import Path

from tests.unit.broker.wire_node import WireClient, batch_of, client_of

from hutong import Node
from hutong.server.configuration.loader import parse_address
from hutong.wire.kafka.apis.k17_sasl_handshake import SaslHandshakeRequest
from hutong.wire.kafka.apis.k36_sasl_authenticate import SaslAuthenticateRequest

SESSION_MS = "sasl.connections_max_reauth_ms"
SETTINGS = {"kafka.protocol": "SASL_PLAINTEXT", "sasl.allow_without_tls": "true"}


async def _log_in(client: WireClient) -> int:
    """For how long that counts, in milliseconds."""
    assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
    answer = await client.ask(SaslAuthenticateRequest(b"\0alice\0s3cret"), 2)
    assert answer.error_code == 0
    lifetime_ms: int = answer.session_lifetime_ms
    return lifetime_ms


async def test_a_busy_producer_is_cut_off_when_its_session_ends(tmp_path: Path) -> None:
    async with Node(tmp_path, settings=SETTINGS | {SESSION_MS: "1000"}, users={"alice": "s3cret"}) as node:
        assert node.kafka is not None
        async with client_of(parse_address(node.kafka)) as other:
            await _log_in(other)
            await other.create("t")
        async with client_of(parse_address(node.kafka)) as client:
            assert await _log_in(client) == 1000
            batch, produced = batch_of(b"x", timestamp_ms=1_700_000_000_000), 0
            try:
                while True:
                    assert (await client.produce(batch)).error_code == 0
                    produced += 1
            except (EOFError, ConnectionError):  # IncompleteReadError: the node has closed the connection
                pass
            assert produced > 1


async def test_a_busy_producer_goes_on_when_it_logs_in_again(tmp_path: Path) -> None:
    async with Node(tmp_path, settings=SETTINGS | {SESSION_MS: "600000"}, users={"alice": "s3cret"}) as node:
        assert node.kafka is not None
        async with client_of(parse_address(node.kafka)) as client:
            await _log_in(client)
            await client.create("t")
            batch = batch_of(b"x", timestamp_ms=1_700_000_000_000)
            for _ in range(20):
                assert (await client.produce(batch)).error_code == 0
            await _log_in(client)
            for _ in range(20):
                assert (await client.produce(batch)).error_code == 0
