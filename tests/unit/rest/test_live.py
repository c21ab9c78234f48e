"""Records as server-sent events: from a place, as they come, and again from the last event."""

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sockjs import WebSocketClient
from tests.support.waiting import until
from tests.unit.rest.scene import RestClient

from hutong.rest.limits import READERS_MAX
from hutong.rest.reading.live import decode_positions, encode_positions
from hutong.testing import EmbeddedNode
from hutong.web.answers import WebRefusal


def value(number: int) -> dict[str, object]:
    return {"value": {"type": "STRING", "data": str(number)}}


def test_a_stream_goes_on_where_its_last_event_was(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("live", partitions=3)
    client.produce("live", *[value(number) for number in range(20)])
    path = client.path("/topics/live/records")
    first = client.events(f"{path}?from=earliest")
    seen = [next(first) for _ in range(8)]
    first.close()
    again = client.events(path, Last_Event_ID=seen[-1]["id"])
    client.produce("live", value(20))
    seen += [next(again) for _ in range(13)]
    again.close()
    assert sorted(int(json.loads(event["data"])["value"]["data"]) for event in seen) == list(range(21))
    assert {event["event"] for event in seen} == {"record"}


def test_a_stream_of_what_comes_begins_at_the_end(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("coming", partitions=1)
    client.produce("coming", value(1))
    events = client.events(client.path("/topics/coming/records"))
    # It has begun once one of the records that are sent all the time has come.
    found: list[dict[str, str]] = []

    reading = threading.Thread(target=lambda: found.append(next(events)))
    reading.start()
    until(lambda: bool(client.produce("coming", value(2))) and bool(found), what="an event")
    reading.join()
    events.close()
    assert json.loads(found[0]["data"])["offset"] > 0


def test_a_socket_goes_on_behind_the_id_that_it_is_given(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("socket", partitions=2)
    client.produce("socket", *[value(number) for number in range(5)])
    port, path = int(client.address.rpartition(":")[2]), client.path("/topics/socket/records")
    with WebSocketClient(port, f"{path}?from=earliest") as first:
        seen = [json.loads(first.receive()) for _ in range(3)]
    with WebSocketClient(port, f"{path}?after={seen[-1]['id']}") as again:
        seen += [json.loads(again.receive()) for _ in range(2)]
    assert sorted(int(each["record"]["value"]["data"]) for each in seen) == list(range(5))


def test_a_client_that_only_asks_for_the_head_leaves_no_consumer(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("heads", partitions=1)
    for _ in range(READERS_MAX + 1):
        until(lambda: client.of("HEAD", "/topics/heads/records").status == 200, what="a place for a consumer")


@given(st.dictionaries(st.integers(0, 10**6), st.integers(0, 2**63 - 1), max_size=200))
def test_positions_are_decoded_as_they_were(positions: dict[int, int]) -> None:
    known = {partition: offset for partition, offset in positions.items() if offset < 10**18}
    assert decode_positions(encode_positions(known).decode()) == known


@pytest.mark.parametrize("text", ["x", "1", "1:", ":1", "-1:2", "1:2,", "1:²", "1:" + "9" * 19, "1:2;3:4"])
def test_other_ids_are_refused(text: str) -> None:
    with pytest.raises(WebRefusal):
        decode_positions(text)
