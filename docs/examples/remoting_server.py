import asyncio
import sys

from hutong.remoting import Channel, Command, serve


def echo(command: Command, channel: Channel) -> Command:
    return Command(0, body=command.body)


async def main(address: str) -> None:
    async with serve(address, {10: echo}) as server:
        print(server.address, flush=True)
        await server.serve_until_signal()


asyncio.run(main(sys.argv[1]))
