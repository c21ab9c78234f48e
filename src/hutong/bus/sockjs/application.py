"""The application behind the sessions, as the transport knows it: `hutong.bus.bridge.Bridge` is one."""

from typing import Protocol

from hutong.bus.bridge.driver import Outlet
from hutong.bus.bridge.hooks import BridgePeer


class SockJsClient(Protocol):
    """The application's side of one session."""

    def receive(self, data: str) -> bool:
        """A message of the client. False: not now; keep it, and those behind it, until `Outlet.resume`."""

    def frame_too_large(self) -> None:
        """A message came that is longer than `frame_characters_max`."""

    def sending_changed(self, is_paused: bool) -> None:
        """True while more is unsent to this client than the bound."""

    def ended(self) -> None:
        """The session is over."""


class Application(Protocol):
    def connect(self, peer: BridgePeer, outlet: Outlet) -> SockJsClient | None:
        """A session has begun; None to close it at once."""
