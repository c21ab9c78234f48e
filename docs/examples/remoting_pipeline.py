"""A remoting server behind a pipeline: plain and TLS on one port, and a password in the first command.

hutong cert dev certs
python docs/examples/remoting_pipeline.py 127.0.0.1:9876 certs/server.pem certs/server-key.pem
"""

import asyncio
import hmac
import sys
from pathlib import Path

from hutong import reactor, remoting
from hutong.remoting import Channel, Command

PASSWORD = "open sesame"
NO_PERMISSION = 16


class Password(reactor.PipelineHandler):
    """Lets no command pass before one that has the password. Then it is no longer needed."""

    def inbound(self, value: Command, link: reactor.PipelineLink) -> None:
        if not hmac.compare_digest(value.ext().get("password", "").encode(), PASSWORD.encode()):
            link.pass_outbound(Command(NO_PERMISSION, value.opaque, flag=1, remark="no permission"))
            link.pipeline.close()
            return
        link.remove()
        link.pass_inbound(value)


class Log(reactor.PipelineHandler):
    """Prints what happens to its connection."""

    def event(self, event: object, link: reactor.PipelineLink) -> None:
        print(type(event).__name__, flush=True)
        # An event of our own, or of another handler: a connection that is idle is closed here.
        if isinstance(event, reactor.IdleEvent):
            link.pipeline.close()
        link.pass_event(event)

    def inbound(self, value: Command, link: reactor.PipelineLink) -> None:
        print("command", value.code, flush=True)
        link.pass_inbound(value)


def echo(command: Command, channel: Channel) -> Command:
    return Command(0, body=command.body)


async def main(address: str, certificate: str, key: str) -> None:
    context = reactor.server_context(Path(certificate), Path(key))

    def plain_or_tls(first: bytes) -> list[reactor.PipelineHandler]:
        return [reactor.TlsHandler(context)] if reactor.is_tls(first) else []

    def handlers() -> list[reactor.PipelineHandler]:
        return [
            reactor.SniffHandler(plain_or_tls),
            reactor.IdleHandler(60),
            reactor.LengthFrames(),
            remoting.CommandCodec(),
            Password(),
            Log(),
        ]

    async with remoting.serve(address, {10: echo}, pipeline=handlers) as server:
        print(server.address, flush=True)
        await server.serve_until_signal()


asyncio.run(main(*sys.argv[1:]))
