"""The client of remoting_pipeline.py: a handler puts the password into the first command of each connection.

python docs/examples/remoting_pipeline_client.py 127.0.0.1:9876 [certs/ca.pem]
"""

import asyncio
import ssl
import sys

from hutong import reactor, remoting
from hutong.remoting import Command


class Credentials(reactor.PipelineHandler):
    def outbound(self, value: Command, link: reactor.PipelineLink) -> None:
        value.fields = {**value.ext(), "password": "open sesame"}
        link.remove()
        link.pass_outbound(value)


def handlers() -> list[reactor.PipelineHandler]:
    return [reactor.LengthFrames(), remoting.CommandCodec(), Credentials()]


async def main(address: str, authority: str | None = None) -> None:
    tls = None if authority is None else ssl.create_default_context(cafile=authority)
    async with remoting.connect(address, pipeline=handlers, tls=tls) as connection:
        for body in (b"first", b"second"):
            print(bytes((await connection.invoke(Command(10, body=body), timeout=3)).body))


asyncio.run(main(*sys.argv[1:]))
