"""What each node of Vert.x and one of ours tell each other, whichever version speaks, and what tests of both ask.

A test file makes a class of its own of the suite; its fixtures `ours` and `theirs` are the two nodes.
"""

from typing import Any

import pytest
from tests.support.driven_process import DrivenProcess

import hutong
from hutong.bus import FailureType, Headers, Message, ReplyError


def addresses(node: hutong.Node) -> set[str]:
    return set(node.bus._consumers)


async def failure_of(reply: Any) -> ReplyError:
    with pytest.raises(ReplyError) as caught:
        await reply
    return caught.value


class VertxTalk:
    """Bodies, codecs, failures and headers, both ways."""

    async def test_both_are_in_the_cluster(self, ours: hutong.Node, theirs: DrivenProcess) -> None:
        both = {theirs.id, ours.cluster_node}
        await theirs.until(lambda: both <= set(theirs.ask_now("nodes")["body"]), "both nodes")

    @pytest.mark.parametrize(
        "body",
        [
            "text ü😀",
            "",
            1,
            -1,
            2**31,
            -(2**63),
            1.5,
            0.0,
            True,
            False,
            None,
            {"a": [1, None, {"b": "ä"}]},
            {},
            [],
            [1, "x"],
        ],
        ids=repr,
    )
    async def test_bodies_come_back_from_their_echo(self, ours: hutong.Node, theirs: DrivenProcess, body: Any) -> None:
        reply = await ours.bus.request("echo", body)
        assert reply.body == body
        assert type(reply.body) is type(body)

    @pytest.mark.parametrize(
        ("codec", "body"),
        [
            ("byte", -7), ("short", 300), ("int", 5), ("long", 5), ("float", 1.5), ("double", 2.0), ("char", "ä"),
            ("buffer", b"\x00\xff"), ("bytearray", b"\x01\x02"), ("string", "s"), ("boolean", True),
        ],
    )  # fmt: skip
    async def test_codecs_come_back_from_their_echo(
        self, ours: hutong.Node, theirs: DrivenProcess, codec: str, body: Any
    ) -> None:
        reply = await ours.bus.request("echo", body, codec=codec)
        assert (reply.body, reply.codec_name) == (body, codec)

    async def test_failures_both_ways(self, ours: hutong.Node, theirs: DrivenProcess) -> None:
        failure = await failure_of(ours.bus.request("fail", 1))
        assert (failure.failure_type, failure.failure_code) == (FailureType.RECIPIENT_FAILURE, 7)
        assert failure.message == "no"
        assert (await failure_of(ours.bus.request("blackhole", 1, timeout=0.2))).failure_type is FailureType.TIMEOUT
        ours.bus.consumer("our-fail", lambda message: message.fail(42, "wrong"))
        await theirs.until_consumers("our-fail", 1)
        answer = await theirs.ask("request", "our-fail", 1)
        assert (answer["failureType"], answer["failureCode"], answer["message"]) == ("RECIPIENT_FAILURE", 42, "wrong")

    async def test_headers_both_ways(self, ours: hutong.Node, theirs: DrivenProcess) -> None:
        headers = Headers({"user": "mei"}).add("tag", "a").add("tag", "ü")
        assert (await ours.bus.request("headers", headers=headers)).body == {"user": "mei", "tag": ["a", "ü"]}

        def show(message: Message) -> None:
            message.reply(dict(message.headers.items()), headers={"seen": "yes"})

        ours.bus.consumer("our-headers", show)
        await theirs.until_consumers("our-headers", 1)
        await theirs.ask("options", body={"headers": {"k": "v", "n": "1"}})
        answer = await theirs.ask("request", "our-headers", 1)
        await theirs.ask("options", body={})
        assert answer["body"] == {"k": "v", "n": "1"}
        assert answer["headers"] == {"seen": "yes"}
