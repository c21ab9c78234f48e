"""A key-value server: a pipeline of lines, JSON, an idle time and the work.

python docs/examples/key_value.py 127.0.0.1:7000
"""

import asyncio
import sys
from typing import Any

from hutong import reactor
from hutong.foundation.errors import ProtocolError

VALUES_MAX = 10_000


class Store(reactor.PipelineHandler):
    """The work: takes decoded requests, sends values that the handlers before it encode."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def inbound(self, value: dict[str, Any], link: reactor.PipelineLink) -> None:
        match value:
            case {"get": str(key)}:
                link.pass_outbound({"value": self.values.get(key)})
            case {"set": str(key), "to": new} if key in self.values or len(self.values) < VALUES_MAX:
                self.values[key] = new
                link.pass_outbound({"set": key})
            case _:
                raise ProtocolError("neither get nor set, or no room")

    def failed(self, error: ProtocolError, link: reactor.PipelineLink) -> None:
        link.pass_outbound({"error": str(error)})

    def event(self, event: object, link: reactor.PipelineLink) -> None:
        if isinstance(event, reactor.IdleEvent):
            link.pass_outbound({"bye": "nothing heard"})
            link.pipeline.close()


async def main(address: str) -> None:
    values: dict[str, Any] = {}

    def handlers() -> list[reactor.PipelineHandler]:
        return [reactor.IdleHandler(60), reactor.LineFrames(), reactor.JsonCodec(), Store(values)]

    async with reactor.serve(address, pipeline=handlers) as server:
        print("serving at", server.address, flush=True)
        await server.serve_until_signal()


asyncio.run(main(sys.argv[1]))
