"""The HTTP engine without a socket: whole, byte by byte, and with more behind it."""

from http import HTTPStatus
from typing import cast

import pytest

from hutong.web.limits import HttpLimits
from hutong.web.machine import SLICE_BYTES, HttpConnection
from hutong.web.messages import HttpEvent, HttpFault, HttpRequest, PipelinedBytes

LIMITS = HttpLimits(body_bytes_max=100, head_bytes_max=1024)
POST = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nX-Y: 1\r\nX-y: 2\r\n\r\nabc"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def fed(*chunks: bytes) -> tuple[HttpConnection, list[HttpEvent]]:
    http = HttpConnection(LIMITS)
    events = [event for chunk in chunks for event in http.receive(chunk)]
    while http.is_behind:
        events += http.next_slice()
    return http, events


@pytest.mark.parametrize("step", [1, 2, 7, len(POST)])
def test_a_request_is_handed_out_whole_however_it_was_cut(step: int) -> None:
    http, events = fed(*(POST[at : at + step] for at in range(0, len(POST), step)))
    (request,) = events
    assert isinstance(request, HttpRequest)
    assert (request.method, request.target, request.body) == ("POST", "/a?b=c", b"abc")
    assert request.headers["x-y"] == "1,2"
    assert http.bytes_held == 0


def test_the_next_request_waits_for_the_answer() -> None:
    http, events = fed(POST + GET)
    assert len(events) == 1
    assert http.next_events() == ()
    http.respond(200, [], b"x")
    (request,) = http.next_events()
    assert isinstance(request, HttpRequest)
    assert request.method == "GET"
    assert not http.is_finished


def test_an_unfinished_request_is_counted() -> None:
    http, events = fed(POST[:-1])
    assert events == []
    assert http.bytes_held == len(POST) - 1


def head(*lines: str, method: str = "POST", version: str = "HTTP/1.1") -> bytes:
    return "\r\n".join([f"{method} / {version}", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (head(), 400),  # no Host
        (head("Host: x", "Host: y"), 400),
        (head("Host: x", "Content-Length: 3", "Transfer-Encoding: chunked"), 400),
        (head("Host: x", "Content-Length: 3", "Content-Length: 4"), 400),
        (head("Host: x", "Content-Length: +3"), 400),
        (head("Host: x", "Content-Length: -1"), 400),
        (head("Host: x", "Content-Length: 0x3"), 400),
        (head("Host: x", "Transfer-Encoding: gzip, chunked"), 501),
        (head("Host: x", "Transfer-Encoding: xchunked"), 501),
        (head("Host: x", "Transfer-Encoding : chunked"), 400),
        (head("Host: x", "Transfer-Encoding: chunked", version="HTTP/1.0"), 400),
        (head("Host: x", "Content-Length: 101"), 413),
        (head("Host: x", "Content-Length: 99999999999999999999"), 413),
        (head("Host: x", "Transfer-Encoding: chunked") + b"65\r\n" + b"x" * 101, 413),
        (head("Host: x", "Transfer-Encoding: chunked") + b"zz\r\n", 400),
        (head("Host: x", "X: " + "y" * 2000), 431),
        (b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (head("Host: x", "X: a\x00b"), 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\n", 400),
        (head("Host: x", "X: a", " b"), 400),
        (head("Host: x", "X: a", "\tb"), 400),
        (head("Host: x", "X: a\rY: b"), 400),
        (head("Host: x", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), 501),
        (head("Host: x", "Transfer-Encoding: \x0bchunked"), 400),
        (head("Host: x", "Transfer-Encoding: chunked") + b"3\r\nabcX\r\n0\r\n\r\n", 400),
        (head("Host: x", "Transfer-Encoding: chunked") + b"3\nabc\r\n0\r\n\r\n", 400),
        (head("Host: x", "Transfer-Encoding: chunked") + b"-1\r\nabc\r\n0\r\n\r\n", 400),
        (head("Host: x", "Transfer-Encoding: chunked") + b"0x3\r\nabc\r\n0\r\n\r\n", 400),
        (head("Host: x", "Transfer-Encoding: chunked") + b"f" * 30 + b"\r\n", 400),
        (head("Host: x", "Transfer-Encoding: chunked") + b"fffffffffffffff\r\n" + b"x" * 101, 413),
        (head("Host: x", "Transfer-Encoding: chunked") + b"0\r\nX: y\r\n\r\n", 400),
        (head("Host: x", "Transfer-Encoding: chunked") + b"0\r\nX: y\n\n", 400),
        (head("Host: x", "Content-Length: 3, 4"), 400),
    ],
)
def test_what_is_no_request_is_a_fault_and_nothing_is_read_after_it(data: bytes, status: int) -> None:
    http, events = fed(data + GET)
    (fault,) = events
    assert isinstance(fault, HttpFault)
    assert fault.status == status
    assert http.failure is not None
    http.refuse(fault.status, fault.text.encode())
    sent = b"".join(bytes(part) for part in http.data_to_send())
    assert sent.startswith(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode())
    assert b"connection: close" in sent.lower()
    assert http.is_finished
    assert http.receive(GET) == ()


def test_what_comes_before_the_answer_waits_unparsed() -> None:
    http, _ = fed(POST)
    assert cast(list[HttpEvent], http.receive_data(GET * 1000)) == [PipelinedBytes()]
    assert (http.is_behind, http.bytes_held) == (True, 1000 * len(GET))
    assert http.next_slice() == ()
    http.respond(200)
    (request,) = http.next_slice()
    assert isinstance(request, HttpRequest)
    assert http.bytes_held == 1000 * len(GET) - SLICE_BYTES


def test_a_client_that_asks_whether_to_go_on_is_told() -> None:
    http, events = fed(head("Host: x", "Content-Length: 3", "Expect: 100-continue"))
    assert events == []
    assert b"".join(bytes(part) for part in http.data_to_send()).startswith(b"HTTP/1.1 100 ")
    assert len(http.receive(b"abc")) == 1


def test_what_comes_in_one_read_is_looked_at_in_slices() -> None:
    http = HttpConnection(LIMITS)
    data = GET * 1000
    *events, last = cast(list[HttpEvent], http.receive_data(data))
    assert isinstance(last, PipelinedBytes)
    answered = 0
    while http.is_behind or events:
        for _ in events:
            http.respond(200, [], b"x")
            answered += 1
        events = [*http.next_events()] or [*http.next_slice()]
        assert http.failure is None
    assert answered == 1000
    assert (http.is_behind, http.bytes_held) == (False, 0)
