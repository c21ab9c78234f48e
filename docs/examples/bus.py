"""A node's bus in one program: consumers as decorators, options as keywords, and errors that say what to write."""

import asyncio

from hutong import Message, Node, ReplyError, UsageError, Verticle


class Kitchen(Verticle):
    def __init__(self, node: Node) -> None:
        self.node = node

    async def start(self) -> None:
        @self.node.bus.consumer("kitchen.cook")
        async def cook(message: Message) -> None:
            message.reply(f"{message.body} for {message.headers.get('guest')}", headers={"cook": "mei"})

        @self.node.bus.consumer("kitchen.wash")
        def wash(message: Message) -> None:
            """Forget to answer: the requester gets a TIMEOUT, and the log of the node a warning with the address."""


async def main() -> None:
    async with Node() as node:
        await node.runtime.deploy(lambda: Kitchen(node))
        dish = await node.bus.request("kitchen.cook", "noodles", headers={"guest": "ann"}, timeout=2.5)
        print(f"{dish.body}, by {dish.headers.get('cook')}")
        try:
            await node.bus.request("kitchen.wash", "plates", timeout=0.1)
        except ReplyError as error:
            print(f"{error.failure_type.name}; unanswered so far: {node.bus.unanswered_total}")
        for mistake in (
            lambda: node.runtime.deploy(Kitchen(node)),
            lambda: node.bus.request("kitchen.cook", "tea", {"timeout": 2}),
            lambda: node.bus.request("kitchen.cook", "tea", timeout="2"),
        ):
            try:
                await mistake()
            except UsageError as error:
                print(error)


asyncio.run(main())
