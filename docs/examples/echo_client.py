import asyncio
import sys

from hutong import reactor


async def main(address: str) -> None:
    async with reactor.connect(address) as connection:
        await connection.send(b"hello\n")
        print(await connection.receive(timeout=3))


asyncio.run(main(sys.argv[1]))
