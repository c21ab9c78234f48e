"""The client of key_value.py: values of JSON in and out.

python docs/examples/key_value_client.py 127.0.0.1:7000
"""

import asyncio
import sys

from hutong import reactor


def handlers() -> list[reactor.PipelineHandler]:
    return [reactor.LineFrames(), reactor.JsonCodec()]


async def main(address: str) -> None:
    async with reactor.connect(address, pipeline=handlers) as connection:
        await connection.send({"set": "a", "to": [1]}, {"get": "a"})
        print(await connection.receive(timeout=3))
        print(await connection.receive(timeout=3))


asyncio.run(main(sys.argv[1]))
