"""A wire that is slow and loses packets, for kernels without netem: `slow_wire ONE OTHER DELAY_MS LOSS SEED`.

Strategy: each Ethernet frame that comes in at one interface leaves by the other after the delay, or not at all. The
kernel's own header goes with each frame, so that large segments and unfinished checksums stay as they are.

Knows nothing of protocols. Needs root. Runs until it is ended.
"""

import random
import select
import socket
import sys
import time
from collections import deque
from typing import Final

_ETH_P_ALL: Final = 3
_SOL_PACKET: Final = 263
_PACKET_VNET_HDR: Final = 15
_FRAME_BYTES_MAX: Final = 70_000
_BUFFER_BYTES: Final = 8_000_000


def main(words: list[str]) -> None:
    one, other = _opened(words[0]), _opened(words[1])
    delay_s, loss, choice = float(words[2]) / 1000, float(words[3]), random.Random(int(words[4]))
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()
    print("ready", flush=True)
    while True:
        left_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for came in select.select([one, other], [], [], left_s)[0]:
            frame, (_, _, kind, *_) = came.recvfrom(_FRAME_BYTES_MAX)
            if kind != socket.PACKET_OUTGOING and choice.random() >= loss:
                waiting.append((time.monotonic() + delay_s, other if came is one else one, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, out, frame = waiting.popleft()
            out.send(frame)


def _opened(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    opened.bind((interface, _ETH_P_ALL))
    return opened


if __name__ == "__main__":
    main(sys.argv[1:])
