"""A node with high availability, as a process.

    python -m tests.compat.available_node ZOOKEEPER GROUP QUORUM [NAME...]

It deploys a verticle for each name, prints `{"node": ID}`, and then a line of JSON for each that starts or stops. It
leaves in order when its standard input ends.
"""

import asyncio
import json
import sys

import hutong


class Shown(hutong.Verticle):
    """One that says when it starts and stops."""

    async def start(self) -> None:
        say(started=self.config["name"])
        self.runtime.provided(hutong.EventBus).consumer(self.config["name"], lambda message: self.config["name"])

    async def stop(self) -> None:
        say(stopped=self.config["name"])


def say(**line: str | None) -> None:
    print(json.dumps(line), flush=True)


async def main(zookeeper: str, group: str, quorum: str, *names: str) -> None:
    from tests.compat.available_node import Shown as Importable  # this file is the main program here

    async with hutong.Node(cluster=f"zk://{zookeeper}", ha_group=group, ha_quorum=int(quorum)) as node:
        for name in names:
            await node.runtime.deploy(Importable, hutong.DeploymentOptions(config={"name": name}, ha=True))
        say(node=node.cluster_node)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
