import asyncio
import sys

from hutong.remoting import Command, connect


async def main(address: str) -> None:
    async with connect(address) as connection:
        answer = await connection.invoke(Command(10, body=b"hello"), timeout=3)
        print(bytes(answer.body))


asyncio.run(main(sys.argv[1]))
