import asyncio
import sys

from hutong import reactor


def echo(line: bytes, peer: reactor.Peer) -> bytes:
    return line + b"\n"


async def main(address: str) -> None:
    async with reactor.serve(address, echo) as server:
        print("echoing lines at", server.address, flush=True)
        await server.serve_until_signal()


asyncio.run(main(sys.argv[1]))
