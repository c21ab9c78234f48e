"""Each record goes to the parts that asked for keys like its own."""

from hutong.server.broker.node_metadata import StateAppliers


def test_records_go_to_those_who_asked_for_their_keys() -> None:
    appliers, topics, everything = StateAppliers(), list[bytes](), list[bytes]()
    appliers.add(b"topic/", lambda key, _value: topics.append(key))
    appliers.add(b"", lambda key, _value: everything.append(key))
    for key in (b"topic/a", b"group/days", b"topic/b"):
        appliers.apply(key, b"")
    assert topics == [b"topic/a", b"topic/b"]
    assert everything == [b"topic/a", b"group/days", b"topic/b"]
