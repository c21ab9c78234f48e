"""The address of embedded nodes."""

from typing import Final

from hutong.reactor.accept.reserved_port import LOOPBACK

HOST: Final = LOOPBACK
