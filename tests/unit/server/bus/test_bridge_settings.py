"""A user's own code in a bridge, named in the settings."""

from tests.support.bridge import OPEN, RawClient, bridged_bus

from hutong.bus.bridge.hooks import BridgeEvent, BridgePeer, EventKind, Verdict
from hutong.server.bus.bridge_settings import BridgeHooks
from hutong.wire.vertx.client_frames import ClientFrame

HERE = __name__


def only_ann(peer: BridgePeer, frame: ClientFrame) -> Verdict:
    return Verdict.ALLOWED if ("token", "ann") in frame.headers else Verdict.NOT_LOGGED_IN


def no_fives(event: BridgeEvent) -> bool:
    return event.kind is not EventKind.SEND or event.body != 5


def test_functions_named_in_the_settings_are_asked() -> None:
    named = {"bridge.authenticator": f"{HERE}:only_ann", "bridge.event_hook": f"{HERE}:no_fives"}
    with bridged_bus(OPEN | named) as bus, RawClient(bus.port) as client:
        ask = {"type": "send", "address": "echo", "replyAddress": "r"}
        assert client.ask(**ask, body=1)["message"] == "not_logged_in"
        token = {"headers": {"token": "ann"}}
        assert client.ask(**ask, **token, body=1)["body"] == 1
        assert client.ask(**ask, **token, body=5)["message"] == "blocked by bridgeEvent handler"


def test_functions_given_take_the_place_of_those_named() -> None:
    named = {"bridge.authenticator": f"{HERE}:only_ann"}
    hooks = BridgeHooks(authenticator=lambda peer, frame: Verdict.ALLOWED)
    with bridged_bus(OPEN | named, hooks) as bus, RawClient(bus.port) as client:
        assert client.ask(type="send", address="echo", replyAddress="r", body=1)["body"] == 1
