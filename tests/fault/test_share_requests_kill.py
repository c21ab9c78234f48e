"""A node that is killed while share fetches and acknowledgements are on their way, some answered and some not.

Requests go over one connection without waiting for answers. The node is killed after a few of them, so it dies between
writing what was acknowledged and answering it. Whatever came back before the connection ended counts as answered.

TEST_KILL_ROUNDS says how often it is killed (4 by default and at most).
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from tests.support.node import IS_HUTONG, Node
from tests.unit.broker.share_member import ACCEPT, RELEASE, Member, acquired, produce
from tests.unit.broker.wire_node import WireClient, client_of

from hutong.server.configuration.settings import Address

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not IS_HUTONG, reason="another broker is told other settings"),
]
ROUNDS = min(4, int(os.environ.get("TEST_KILL_ROUNDS", "4")))  # more would pass the limit of ten deliveries
RECORDS = 200
FETCHES_MAX = 200
RUN = 25  # records of one fetch
SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79


class Ledger:
    """Outcomes that the node has answered, and the deliveries that must agree with them."""

    def __init__(self) -> None:
        self.accepted: set[int] = set()
        self.uncertain: set[int] = set()  # accepted by a request that was not answered
        self.counts: Counter[int] = Counter()  # of the newest delivery
        self.released: set[int] = set()  # since their newest delivery
        self.faults: list[str] = []

    def delivered(self, runs: list[tuple[int, int, int]]) -> list[int]:
        """Check a delivery; returns its offsets."""
        for first, last, count in runs:
            for offset in range(first, last + 1):
                if offset in self.accepted:
                    self.faults.append(f"{offset} was accepted and came again")
                # The lock of a member that was not answered may have gone with the node; an answered release counts.
                if count < self.counts[offset] + (offset in self.released):
                    self.faults.append(f"{offset} came for the {count}. time after the {self.counts[offset]}.")
                self.counts[offset] = count
                self.released.discard(offset)
        return [offset for first, last, _ in runs for offset in range(first, last + 1)]


@asynccontextmanager
async def member_of(node: Node, name: str) -> AsyncIterator[tuple[WireClient, Member]]:
    host, _, port = node.address.rpartition(":")
    async with client_of(Address(host, int(port))) as client:
        member = Member(client, name)
        assert (await member.beat(0, "t")).error_code == 0
        yield client, member


async def round_of(node: Node, ledger: Ledger, number: int, random: Random) -> None:
    """Fetch, acknowledge each record by a request of its own, and kill the node among them."""
    async with member_of(node, f"member-{number}") as (client, member):
        first = await member.fetch(partitions=True, max_wait_ms=5_000, max_records=RUN, batch_size=RUN)
        offsets = ledger.delivered(acquired(first))
        sent: list[tuple[int, int]] = []
        for offset in offsets:
            kind = ACCEPT if random.random() < 0.6 else RELEASE
            client.send(member.acknowledgement((offset, offset, kind)), 2)
            sent.append((offset, kind))
        client.send(member.request(max_records=RUN, batch_size=RUN), 2)
        ledger.uncertain |= {offset for offset, kind in sent if kind == ACCEPT}
        dies_after = random.randrange(len(sent) + 1)
        try:
            for answered, (offset, kind) in enumerate(sent):
                if answered == dies_after:
                    node.kill()
                answer = await client.receive(SHARE_ACKNOWLEDGE, 2)
                assert answer.responses[0].partitions[0].error_code == 0
                (ledger.accepted if kind == ACCEPT else ledger.released).add(offset)
            ledger.delivered(acquired(await client.receive(SHARE_FETCH, 2)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the others were on their way
        if node.process.is_running:
            node.kill()


async def drained(node: Node, ledger: Ledger) -> None:
    """Accept all that is left."""
    async with member_of(node, "last") as (_, member):
        for _ in range(FETCHES_MAX):
            answer = await member.fetch(partitions=True, max_wait_ms=1_000)
            offsets = ledger.delivered(acquired(answer))
            for offset in offsets:
                done = await member.acknowledge((offset, offset, ACCEPT))
                assert done.responses[0].partitions[0].error_code == 0
            ledger.accepted.update(offsets)
            if len(ledger.accepted | ledger.uncertain) == RECORDS and not offsets:
                return


async def scenario(node: Node) -> Ledger:
    ledger, random = Ledger(), Random(16)
    async with member_of(node, "first") as (client, member):
        await client.create("t")
        assert (await member.beat(0, "t")).error_code == 0
        assert (await member.fetch(partitions=True)).error_code == 0  # the group begins here
        for start in range(0, RECORDS, 20):
            await produce(client, [b"%d" % number for number in range(start, start + 20)])
    for number in range(ROUNDS):
        await round_of(node, ledger, number, random)
        node.start()
    await drained(node, ledger)
    return ledger


def test_answered_acknowledgements_hold_and_nothing_is_lost(tmp_path: Path) -> None:
    with Node(tmp_path, "share.record_lock_duration_ms=1000", "share.delivery_count_limit=10") as node:
        ledger = asyncio.run(scenario(node))
    assert ledger.faults == []
    assert ledger.accepted | ledger.uncertain == set(range(RECORDS))
    assert max(ledger.counts.values()) > 1, "some were delivered again"
