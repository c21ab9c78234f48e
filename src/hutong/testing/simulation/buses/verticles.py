"""The verticle that nodes of a simulation take over from each other, and what it tells.

Knows no simulation: a node makes it by its name alone, as any verticle with high availability.
"""

from hutong.runtime.verticles import Verticle


class VerticleNotes:
    """The place where verticles of one process note that they run. `began(name)` and `ended(name)` are the methods."""

    def began(self, name: str) -> None: ...

    def ended(self, name: str) -> None: ...


class SimVerticle(Verticle):
    """Runs from the end of its start to the begin of its stop."""

    async def start(self) -> None:
        self.runtime.provided(VerticleNotes).began(self.config["name"])

    async def stop(self) -> None:
        self.runtime.provided(VerticleNotes).ended(self.config["name"])
