"""Verticles: pieces of a program, started, stopped and multiplied as one, each instance in a context of its own.

Strategy: all that changes deployments runs on the runtime's first loop, so nothing is locked; only `start`, `stop` and
the close hooks run in the contexts of the verticles. Who waits for a deployment is shielded from it and it from them: a
handler may undeploy the verticle that it belongs to, and is cancelled at that wait when its context is closed.

A deployment ends always in the same way, whether it was undeployed or its start failed: its children, then `stop` of
those instances that had started, then the close hooks of all. Knows no messaging.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

from hutong.foundation.errors import UsageError
from hutong.runtime.contexts.contexts import Context, ContextKind
from hutong.runtime.threads.pools import WORKER_THREADS

if TYPE_CHECKING:
    from hutong.runtime.runtime import Runtime

INSTANCES_MAX: Final = 1_000


class Verticle:
    """A deployable part: override `start` and `stop`. Both run in `context`, as all that they begin should.

    Set before `start`: context, runtime, config (that of the deployment's options).
    """

    context: Context
    runtime: "Runtime"
    config: Mapping[str, Any]

    async def start(self) -> None:
        """Register handlers, deploy children. What it raises fails the deployment."""

    async def stop(self) -> None:
        """Undo what no close hook undoes. Not called where `start` failed."""


@dataclass(frozen=True, slots=True)
class DeploymentOptions:
    """Options of one deployment. Raises ValueError for a number of instances out of bounds."""

    name: str = ""  # in logs and ids; by default the name of the verticle's class
    instances: int = 1  # each with a context of its own, dealt over the event loops
    kind: ContextKind = ContextKind.EVENT_LOOP  # where its handlers run: WORKER for those that block
    pool: str | None = None  # threads by name, shared by all that use the name; by default the runtime's
    pool_threads: int = WORKER_THREADS  # of a pool by name, if this is its first user
    loop: int | None = None  # number of the event loop; by default they are dealt
    config: Mapping[str, Any] = field(default_factory=dict)
    ha: bool = False  # another node deploys it if this one dies, in a cluster with high availability

    def __post_init__(self) -> None:
        if not 1 <= self.instances <= INSTANCES_MAX:
            raise ValueError(f"a verticle has 1 to {INSTANCES_MAX} instances, not {self.instances}")


DEFAULT_OPTIONS: Final = DeploymentOptions()


class DeploymentState(Enum):
    """Of a deployment."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


class Deployment:
    """A verticle that was deployed, with all its instances. Made by `Runtime.deploy`; read it, do not change it."""

    def __init__(self, id: str, name: str, options: DeploymentOptions, parent: "Deployment | None") -> None:
        self.id = id
        self.name = name
        self.options = options
        self.parent = parent
        self.children: list[Deployment] = []
        self.verticles: list[Verticle] = []
        self.state = DeploymentState.STARTING
        self._started: list[Verticle] = []
        self._end: asyncio.Task[list[Exception]] | None = None

    def __repr__(self) -> str:
        return f"<deployment {self.id}, {self.state.value}>"


class HighAvailability(Protocol):
    """The part of a clustered node that deploys verticles with `ha`, here and elsewhere. On the first loop."""

    async def deploy(self, make: Callable[[], Verticle], options: DeploymentOptions) -> Deployment: ...

    def has(self, deployment: Deployment) -> bool:
        """True for one of its own; from any thread."""
        ...

    async def undeploy(self, deployment: Deployment) -> None: ...


class Deployments:
    """All of one runtime, on its first loop."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._numbers = itertools.count(1)
        self._by_id: dict[str, Deployment] = {}
        self._by_context: dict[Context, Deployment] = {}  # of all verticles that have not ended

    def all(self) -> tuple[Deployment, ...]:
        """In the order they began; from any thread."""
        return tuple(self._by_id.copy().values())

    def of_context(self, context: Context | None) -> Deployment | None:
        """The deployment whose verticle runs in this context, or None."""
        return None if context is None else self._by_context.get(context)

    async def deploy(
        self, make: Callable[[], Verticle], options: DeploymentOptions, parent: Deployment | None
    ) -> Deployment:
        """Start all instances; if one fails, end them all and raise what it raised."""
        # Its children end first, so one that came now would outlive it.
        if parent is not None and parent.state in (DeploymentState.ENDING, DeploymentState.ENDED):
            raise RuntimeError(f"{parent.id} is being undeployed: it takes no more children")
        # All are made before any starts: a constructor that fails leaves nothing to undo.
        verticles = [_checked(make()) for _ in range(options.instances)]
        name = options.name or type(verticles[0]).__name__
        deployment = Deployment(f"{name}-{next(self._numbers)}", name, options, parent)
        self._by_id[deployment.id] = deployment
        if parent is not None:
            parent.children.append(deployment)
        try:
            for number, verticle in enumerate(verticles):
                self._place(deployment, verticle, number)
            outcomes = await asyncio.gather(
                *(self._start(deployment, verticle) for verticle in deployment.verticles), return_exceptions=True
            )
            if deployment.state is not DeploymentState.STARTING:  # and that cancelled what had not started
                raise RuntimeError(f"{deployment.id} was undeployed while it started")
            failures = [outcome for outcome in outcomes if outcome is not None]
            if failures:
                raise failures[0]
        # BaseException: a cancelled deploy must stop what has started as well.
        except BaseException:
            await self._ended(deployment)
            raise
        deployment.state = DeploymentState.RUNNING
        return deployment

    async def undeploy(self, deployment: Deployment) -> None:
        """End it. Once all is ended, raises the first thing that a `stop` raised."""
        errors = await self._ended(deployment)
        if errors:
            raise errors[0]

    async def undeploy_all(self) -> list[Exception]:
        """End everything, the youngest first; returns what the verticles' `stop` raised."""
        errors: list[Exception] = []
        while self._by_id:
            errors += await self._ended(next(reversed(self._by_id.values())))
        return errors

    def _place(self, deployment: Deployment, verticle: Verticle, number: int) -> None:
        options = deployment.options
        name = deployment.id if options.instances == 1 else f"{deployment.id}/{number}"
        context = self._runtime.context(
            options.kind, name=name, pool=options.pool, pool_threads=options.pool_threads, loop=options.loop
        )
        self._by_context[context] = deployment
        verticle.context, verticle.runtime, verticle.config = context, self._runtime, options.config
        deployment.verticles.append(verticle)

    async def _start(self, deployment: Deployment, verticle: Verticle) -> None:
        await verticle.context.call(verticle.start)
        deployment._started.append(verticle)

    async def _ended(self, deployment: Deployment) -> list[Exception]:
        """However many ask, it ends once."""
        if deployment._end is None:
            deployment.state = DeploymentState.ENDING
            deployment._end = asyncio.get_running_loop().create_task(self._end(deployment))
        return await asyncio.shield(deployment._end)

    async def _end(self, deployment: Deployment) -> list[Exception]:
        errors: list[Exception] = []
        # Children may use what their parent provides, so they end before it.
        while deployment.children:
            errors += await self._ended(deployment.children[-1])
        for verticle in reversed(deployment._started):
            try:
                # A blocked handler would keep the whole undeploy waiting for ever.
                if not await verticle.context.answers():
                    raise RuntimeError(f"{verticle.context.name} is blocked by a handler: its stop is not called")
                await verticle.context.call(verticle.stop)
            except Exception as error:  # noqa: BLE001  # a supervisor: the others are stopped, then it is raised
                errors.append(error)
        for verticle in reversed(deployment.verticles):
            if verticle not in deployment._started:
                await verticle.context.cancel_coroutines()  # its start; the hooks find nothing under way
            await verticle.context.close()
            del self._by_context[verticle.context]
        if deployment.parent is not None:
            deployment.parent.children.remove(deployment)
        deployment.state = DeploymentState.ENDED
        del self._by_id[deployment.id]
        return errors


def check_deployable(make: object, options: object) -> None:
    """Raise UsageError for arguments of `deploy` that are nearly right, with what to write instead."""
    if isinstance(make, Verticle):
        name = type(make).__name__
        raise UsageError(
            f"deploy() makes each instance itself: give it the class, deploy({name}), or a function, "
            f"deploy(lambda: {name}(...)), not an instance."
        )
    if not callable(make):
        raise UsageError(
            f"deploy() calls what makes a Verticle, a class or a function; {type(make).__name__} is neither."
        )
    if not isinstance(options, DeploymentOptions):
        raise UsageError(
            f"options of deploy() are DeploymentOptions(instances=2, ...), not {type(options).__name__}; "
            "what the verticle reads itself is DeploymentOptions(config={...})."
        )


def _checked(made: object) -> Verticle:
    if isinstance(made, Verticle):
        return made
    # An `async def` as the factory: it would never run, and asyncio would warn of a coroutine that nobody awaited.
    if asyncio.iscoroutine(made):
        made.close()
        raise UsageError("deploy() takes an ordinary function; what has to be awaited belongs into `async def start`.")
    raise TypeError(f"what was to make a Verticle made {made!r}")
