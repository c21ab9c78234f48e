"""The gRPC server: what a call becomes, and every status that a failed one has."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pytest

pytest.importorskip("grpc")

import grpc
import msgspec
import trustme
from tests.unit.rpc.grpc.conftest import LIMITS, Client

import hutong
from hutong.foundation.errors import UsageError
from hutong.rpc import NotAuthorized, Rpc, ServiceError, authentication, authorization, current_call, service
from hutong.rpc.call import Done, IncomingCall, Outcome
from hutong.rpc.descriptions.description import describe
from hutong.rpc.errors import CallFailed, NotExecuted, OutcomeUnknown, RequestExpired, ResultNotKept, failure_of
from hutong.rpc.grpc import GrpcLimits, open_server
from hutong.rpc.grpc.opening import GrpcTls, build_server
from hutong.rpc.grpc.serving.server import GrpcServer
from hutong.rpc.grpc.serving.statuses import ending_of


class OutOfStock(ServiceError):
    code = 17


class NoSuchItem(ServiceError):
    code = 18
    grpc_status = "NOT_FOUND"


@service("shop.desk", errors=[OutOfStock, NoSuchItem])
class Desk(Protocol):
    async def add(self, a: int, b: int = 1) -> int: ...
    async def fail(self, how: str) -> None: ...
    async def wait(self) -> None: ...
    async def headers(self) -> dict[str, str]: ...
    async def repeat(self, text: str, times: int) -> str: ...


class Implementation:
    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.ended = asyncio.Event()
        self.deadline_ms: int | None = None

    async def add(self, a: int, b: int = 1) -> int:
        return a + b

    async def fail(self, how: str) -> None:
        raise {
            "stock": OutOfStock("none left", debug_info={"item": "tea"}),
            "item": NoSuchItem("no tea"),
            "own": ServiceError("other", code=99),
            "long": ServiceError("x" * 10_000, code=99, debug_info={"much": "y" * 10_000}),
            "fault": ZeroDivisionError("secret"),
            "forbidden": NotAuthorized("not you"),
        }[how]

    async def wait(self) -> None:
        self.deadline_ms = current_call().deadline_ms
        self.began.set()
        await self.go_on.wait()
        self.ended.set()

    async def headers(self) -> dict[str, str]:
        return dict(current_call().headers.items())

    async def repeat(self, text: str, times: int) -> str:
        return text * times


@pytest.fixture
async def desk(rpc: Rpc) -> Implementation:
    desk = Implementation()
    await rpc.bind(Desk, desk)
    return desk


@pytest.fixture
def client(channel: Any, desk: Implementation) -> Client:
    return Client(channel, describe(Desk))


async def test_a_call_is_answered(client: Client) -> None:
    assert (await client.call("Add", a=2, b=3)).result == 5
    assert (await client.call("Add", a=2)).result == 3


@pytest.mark.parametrize(
    ("how", "status", "message", "trailers"),
    [
        (
            "stock",
            "FAILED_PRECONDITION",
            "none left",
            {"hutong-code": "17", "hutong-error": "OutOfStock", "hutong-debug-info-bin": b'{"item":"tea"}'},
        ),
        ("item", "NOT_FOUND", "no tea", {"hutong-code": "18", "hutong-error": "NoSuchItem"}),
        ("own", "FAILED_PRECONDITION", "other", {"hutong-code": "99"}),
        ("forbidden", "PERMISSION_DENIED", "not you", {"hutong-code": "403"}),
    ],
)
async def test_a_failure_has_a_status_and_its_code(
    client: Client, how: str, status: str, message: str, trailers: dict[str, Any]
) -> None:
    assert await client.status("Fail", how=how) == (status, message, trailers)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OutcomeUnknown("who knows"), "ABORTED"),
        (RequestExpired("too old"), "FAILED_PRECONDITION"),
        (ResultNotKept("too large"), "DATA_LOSS"),
        (NotExecuted("not remembered"), "UNAVAILABLE"),
    ],
)
def test_what_a_memory_says_has_a_status(error: CallFailed, status: str) -> None:
    ending = ending_of(failure_of(error), describe(Desk))
    assert (ending.status.name, ending.message) == (status, error.message)


async def test_a_fault_tells_strangers_nothing(client: Client, failures: list[BaseException]) -> None:
    status, message, trailers = await client.status("Fail", how="fault")
    assert (status, trailers) == ("UNKNOWN", {"hutong-code": "-1"})
    assert "secret" not in message
    assert [type(failure) for failure in failures] == [ZeroDivisionError]


async def test_what_is_too_long_for_trailers_is_shortened(client: Client) -> None:
    status, message, trailers = await client.status("Fail", how="long")
    assert (status, trailers) == ("FAILED_PRECONDITION", {"hutong-code": "99"})
    assert message == "x" * 1_023 + "…"


async def test_wrong_arguments(client: Client) -> None:
    status, message, _ = await client.status("Add", request=b"\xff")
    assert (status, message) == ("INVALID_ARGUMENT", "the request is no message of this type")


async def test_an_unknown_method_and_an_unknown_service(client: Client) -> None:
    for path in ("/shop.desk.Desk/Subtract", "/shop.desk.Other/Add", "/", "no path"):
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await client.channel.unary_unary(path)(b"")
        assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_service_that_is_not_bound_any_more(client: Client, rpc: Rpc) -> None:
    await client.call("Add", a=1)
    await next(iter(rpc.registry.bindings)).unbind()
    status, message, _ = await client.status("Add", a=1)
    assert (status, message) == ("UNAVAILABLE", "nobody is bound at 'shop.desk' now")


async def test_a_deadline_ends_the_call_and_is_known_to_the_service(
    client: Client, desk: Implementation, server: GrpcServer
) -> None:
    status, _, _ = await client.status("Wait", options={"timeout": 0.2})
    assert status == "DEADLINE_EXCEEDED"
    assert desk.deadline_ms is not None
    await none_waits(server)
    assert not desk.ended.is_set()
    desk.go_on.set()
    await desk.ended.wait()  # its effect is not taken back half way


async def test_a_caller_that_cancels(client: Client, desk: Implementation, server: GrpcServer) -> None:
    call = client.call("Wait")
    await desk.began.wait()
    assert desk.deadline_ms is None
    assert len(server.waits) == 1
    call.cancel()
    await none_waits(server)
    assert server.waits.abandoned_total == 1
    desk.go_on.set()
    await desk.ended.wait()


async def none_waits(server: GrpcServer) -> None:
    """Returns once no call is parked: the network has no event for that."""
    while len(server.waits):  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def test_metadata_are_headers(client: Client) -> None:
    metadata = [("request-id", "a/1"), ("authorization", "Bearer t0ken"), ("trace-bin", b"\x00")]
    answer = await client.call("Headers", options={"metadata": metadata})
    assert dict(answer.result) == {"request-id": "a/1", "authorization": "Bearer t0ken", "auth-token": "t0ken"}


async def test_messages_that_are_too_large(client: Client) -> None:
    status, _, _ = await client.status("Repeat", text="x" * LIMITS.message_bytes_max, times=1)
    assert status == "RESOURCE_EXHAUSTED"
    status, message, _ = await client.status("Repeat", text="x" * 1_000, times=1_000)
    assert (status, message) == ("RESOURCE_EXHAUSTED", "message_bytes_max is 100000 and would be exceeded")
    assert len((await client.call("Repeat", text="x" * 1_000, times=90)).result) == 90_000


async def test_a_result_that_does_not_fit(channel: Any, rpc: Rpc) -> None:
    class Wrong:
        async def number(self) -> int:
            return "many"  # type: ignore[return-value]

    await rpc.bind(Counter, Wrong())
    status, message, _ = await Client(channel, describe(Counter)).status("Number")
    assert status == "INTERNAL"
    assert message.startswith("the result of number cannot be sent: ")


@service("counter")
class Counter(Protocol):
    async def number(self) -> int: ...


async def test_interceptors_see_who_calls(channel: Any, rpc: Rpc, desk: Implementation) -> None:
    who = authentication(lambda token: token if token in ("anna", "bo") else None)
    may = authorization(lambda call: call.user == "anna")
    await rpc.bind(Desk, desk, address="guarded.desk", interceptors=[who, may])
    guarded = Client(channel, describe(Desk), package="guarded.desk")
    assert (await guarded.status("Add", a=1))[0] == "UNAUTHENTICATED"
    assert (await guarded.status("Add", a=1, options={"metadata": [("auth-token", "eve")]}))[0] == "UNAUTHENTICATED"
    assert (await guarded.status("Add", a=1, options={"metadata": [("auth-token", "bo")]}))[0] == "PERMISSION_DENIED"
    assert (await guarded.call("Add", a=1, options={"metadata": [("auth-token", "anna")]})).result == 2


async def test_more_calls_than_the_server_takes(client: Client, desk: Implementation, server: GrpcServer) -> None:
    calls = [client.call("Wait") for _ in range(LIMITS.calls_max + 5)]
    ended = asyncio.gather(*calls, return_exceptions=True)
    await desk.began.wait()
    while sum(call.done() for call in calls) < 5:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    desk.go_on.set()
    refused = [error.code().name for error in await ended if isinstance(error, grpc.aio.AioRpcError)]
    assert refused == ["RESOURCE_EXHAUSTED"] * 5


async def test_a_service_without_mapping_is_left_out_and_told_of(
    channel: Any, rpc: Rpc, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    @service("unsayable")
    class Unsayable(Protocol):
        async def call(self) -> Any: ...

    class Says:
        async def call(self) -> Any: ...

    with caplog.at_level(logging.WARNING):
        await rpc.bind(Unsayable, Says())
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await channel.unary_unary("/unsayable.Unsayable/Call")(b"")
    assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "the service at unsayable is not offered over gRPC: Unsayable.call: the result is Any" in caplog.text
    assert (await client.call("Add", a=2)).result == 3


async def test_a_package_of_ones_own(rpc: Rpc, desk: Implementation) -> None:
    server = build_server(rpc, limits=LIMITS)
    assert server.add(describe(Desk), package="shop.v1") == "shop.v1.Desk"
    with pytest.raises(UsageError, match=r"Two services would be called shop\.v1\.Desk"):
        server.add(describe(Desk), package="shop.v1")
    await server.listen("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(server.address) as channel:
        assert (await Client(channel, describe(Desk), package="shop.v1").call("Add", a=2)).result == 3
    await server.close()


async def test_a_status_that_is_none_is_refused(rpc: Rpc) -> None:
    class Odd(ServiceError):
        code = 5
        grpc_status = "MISSING"

    @service("odd", errors=[Odd])
    class Odder(Protocol):
        async def call(self) -> None: ...

    with pytest.raises(UsageError, match=r"Odd.grpc_status is 'MISSING'"):
        build_server(rpc).add(describe(Odder))


@pytest.mark.parametrize("listen", ["nowhere", "host:port", "host:70000", ":1"])
async def test_an_address_that_is_none(rpc: Rpc, listen: str) -> None:
    with pytest.raises(UsageError, match="is no address for gRPC; write HOST:PORT"):
        await open_server(rpc, listen)


async def test_an_address_in_use(rpc: Rpc, server: GrpcServer) -> None:
    with pytest.raises(UsageError, match=f"Cannot listen on {server.address} for gRPC"):
        await open_server(rpc, server.address)


async def test_without_the_extra_a_sentence_says_what_to_do(rpc: Rpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hutong.rpc.grpc.serving.server", None)
    with pytest.raises(UsageError, match=r"pip install 'hutong\[grpc\]'"):
        await open_server(rpc, "127.0.0.1:0")


async def test_over_tls(rpc: Rpc, desk: Implementation, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    tls = GrpcTls(tmp_path / "server.pem")
    server = await open_server(rpc, "localhost:0", tls=tls, limits=LIMITS)
    credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    async with grpc.aio.secure_channel(server.address, credentials) as channel:
        assert (await Client(channel, describe(Desk)).call("Add", a=2)).result == 3
    await server.close()


async def test_certificates_are_loaded_again(rpc: Rpc, desk: Implementation, tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    old, new = trustme.CA(), trustme.CA()
    old.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(file))
    server = await open_server(rpc, "localhost:0", tls=GrpcTls(file, reload_interval_ms=0), limits=LIMITS)

    async def answers(channel: grpc.aio.Channel) -> bool:
        with contextlib.suppress(grpc.aio.AioRpcError):
            return bool((await Client(channel, describe(Desk)).call("Add", a=2)).result == 3)
        return False

    def trusting(authority: trustme.CA) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        return grpc.aio.secure_channel(server.address, credentials, [("grpc.use_local_subchannel_pool", 1)])

    async with trusting(old) as open_before, trusting(new) as after, trusting(old) as stranger:
        assert await answers(open_before)
        file.write_text("half a certif")
        async with trusting(old) as meanwhile:
            assert await answers(meanwhile), "files that cannot be used change nothing"
        new.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(file))
        assert await answers(after)
        assert await answers(open_before), "an open connection goes on"
        assert not await answers(stranger)
    await server.close()


async def test_a_certificate_that_cannot_be_used(rpc: Rpc, tmp_path: Path) -> None:
    (tmp_path / "server.pem").write_text("nothing")
    with pytest.raises(UsageError, match="Cannot use the TLS certificate"):
        build_server(rpc, tls=GrpcTls(tmp_path / "server.pem"))


async def test_a_server_that_closes_ends_what_is_under_way(rpc: Rpc, desk: Implementation) -> None:
    server = await open_server(rpc, "127.0.0.1:0", limits=LIMITS)
    async with grpc.aio.insecure_channel(server.address) as channel:
        call = Client(channel, describe(Desk)).call("Wait")
        await desk.began.wait()
        await server.close()
        await server.close()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call
        assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    assert not len(server.waits)
    desk.go_on.set()


async def test_a_node_with_a_server() -> None:
    async with hutong.Node(grpc="127.0.0.1:0") as node:
        await node.rpc.bind(Desk, Implementation())
        assert node.grpc is not None
        async with grpc.aio.insecure_channel(node.grpc) as channel:
            assert (await Client(channel, describe(Desk)).call("Add", a=2)).result == 3
    async with hutong.Node() as plain:
        assert plain.grpc is None


class Remembering:
    """A memory of outcomes, kept as JSON."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def begin_call(self, call: IncomingCall, execute: Callable[[Done], None], done: Done) -> None:
        number = call.headers.get("request-id") or ""
        kept = self.kept.get(number)
        if kept is not None:
            done(Outcome(msgspec.json.decode(kept), is_encoded=True))
            return

        def then(outcome: Outcome) -> None:
            self.kept[number] = msgspec.json.encode(outcome.value)
            done(outcome)

        execute(then)


async def test_a_request_that_is_sent_twice_is_executed_once(channel: Any, rpc: Rpc) -> None:
    @service("till")
    class Till(Protocol):
        async def pay(self, amount: Decimal) -> list[tuple[datetime, Decimal]]: ...

    class Counting:
        def __init__(self) -> None:
            self.paid: list[tuple[datetime, Decimal]] = []

        async def pay(self, amount: Decimal) -> list[tuple[datetime, Decimal]]:
            self.paid.append((datetime(2026, 1, 1, len(self.paid), tzinfo=UTC), amount))
            return self.paid

    till = Counting()
    await rpc.bind(Till, till, memory=Remembering())
    client = Client(channel, describe(Till))
    metadata = [("request-id", "a/1")]
    first, second = [await client.call("Pay", amount=Decimal("1.50"), options={"metadata": metadata}) for _ in "ab"]
    assert first == second
    assert (len(till.paid), first.result[0].item_2) == (1, "1.50")
    assert len((await client.call("Pay", amount=Decimal(1), options={"metadata": [("request-id", "a/2")]})).result) == 2


@pytest.mark.parametrize(
    "words",
    [b"GET / HTTP/1.1\r\n\r\n", bytes(10_000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 9],
    ids=["HTTP/1.1", "zeros", "a frame whose length lies"],
)
async def test_bytes_that_are_none_of_grpc_s(client: Client, server: GrpcServer, words: bytes) -> None:
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(words)
    with contextlib.suppress(ConnectionError):
        await reader.read()  # until the server has hung up
    writer.close()
    assert (await client.call("Add", a=2)).result == 3


@pytest.mark.parametrize("path", ["/shop.desk.Desk/Add", "/shop.desk.Desk/Missing"])
async def test_a_call_whose_request_does_not_come_is_ended(rpc: Rpc, desk: Implementation, path: str) -> None:
    """Its headers count as a call under way: such calls kept everybody else's out."""
    await rpc.bind(Desk, desk)
    limits = GrpcLimits(calls_max=1, request_ms=100, close_grace_ms=0)
    server = await open_server(rpc, "127.0.0.1:0", limits=limits)
    async with grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await channel.stream_unary(path)()
        is_known = path.endswith("Add")
        assert failed.value.code() is getattr(grpc.StatusCode, "DEADLINE_EXCEEDED" if is_known else "UNIMPLEMENTED")
        assert (await Client(channel, describe(Desk)).call("Add", a=2)).result == 3
    await server.close()


async def test_a_call_that_ends_without_a_request_is_told_so(rpc: Rpc, desk: Implementation) -> None:
    await rpc.bind(Desk, desk)
    server = await open_server(rpc, "127.0.0.1:0", limits=LIMITS)
    async with grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="the call ended before its request") as failed:
            await channel.stream_unary("/shop.desk.Desk/Add")(iter(()))
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    await server.close()


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01\x00"], ids=["nothing", "half of a ClientHello"])
@pytest.mark.parametrize("is_secure", [False, True])
async def test_a_connection_whose_handshake_does_not_end_is_closed(
    rpc: Rpc, tmp_path: Path, is_secure: bool, said: bytes
) -> None:
    pem = tmp_path / "server.pem"
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    limits = GrpcLimits(handshake_ms=100, close_grace_ms=0)
    server = await open_server(rpc, "127.0.0.1:0", tls=GrpcTls(pem) if is_secure else None, limits=limits)
    reader, writer = await asyncio.open_connection(*server.address.split(":"))
    writer.write(said)
    with contextlib.suppress(ConnectionError):
        while await reader.read(100):  # gRPC's own settings come first
            pass
    writer.close()
    await server.close()


async def test_a_connection_beyond_the_bound_is_closed_and_one_makes_room(rpc: Rpc, desk: Implementation) -> None:
    await rpc.bind(Desk, desk)
    server = await open_server(rpc, "127.0.0.1:0", limits=GrpcLimits(connections_max=1, close_grace_ms=0))
    host, port = server.address.split(":")
    async with grpc.aio.insecure_channel(server.address) as channel:
        assert (await Client(channel, describe(Desk)).call("Add", a=2)).result == 3
        reader, writer = await asyncio.open_connection(host, port)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
    async with grpc.aio.insecure_channel(server.address) as channel:
        client = Client(channel, describe(Desk))
        assert (await client.call("Add", a=3)).result == 4
    await server.close()
