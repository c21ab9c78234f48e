"""Verticles: start, stop, instances, children, failed starts, close hooks."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator

import pytest

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import UsageError
from hutong.runtime import runtime as runtime_module
from hutong.runtime.contexts import contexts
from hutong.runtime.contexts.contexts import Context, ContextKind, current_context
from hutong.runtime.runtime import Runtime
from hutong.runtime.verticles import Deployment, DeploymentOptions, DeploymentState, Verticle

Logged = pytest.LogCaptureFixture


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(SystemClock()) as runtime:
        yield runtime


class Told(Verticle):
    """Tells what happens to it."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told

    async def start(self) -> None:
        self.told.append(f"start {self.name}")
        self.context.add_close_hook(lambda: self.told.append(f"hook {self.name}"))

    async def stop(self) -> None:
        self.told.append(f"stop {self.name}")


async def test_in_verticle(runtime: Runtime) -> None:
    seen: list[tuple[Context | None, int]] = []

    class Noting(Verticle):
        async def start(self) -> None:
            seen.append((current_context(), threading.get_ident()))
            await asyncio.sleep(0)
            seen.append((current_context(), threading.get_ident()))

        async def stop(self) -> None:
            seen.append((current_context(), threading.get_ident()))

    deployment = await runtime.deploy(Noting)
    [verticle] = deployment.verticles
    await runtime.undeploy(deployment)
    assert seen == [(verticle.context, threading.get_ident())] * 3
    assert verticle.context.kind is ContextKind.EVENT_LOOP


@pytest.mark.parametrize("kind", [ContextKind.WORKER, ContextKind.MULTI_WORKER])
async def test_in_worker_verticle(runtime: Runtime, kind: ContextKind) -> None:
    seen: list[tuple[Context | None, bool, str]] = []

    class Noting(Verticle):
        def note(self) -> None:
            seen.append((current_context(), self.context.is_current, threading.current_thread().name[:14]))

        async def start(self) -> None:
            self.note()
            await asyncio.sleep(0)
            self.note()

        async def stop(self) -> None:
            self.note()

    deployment = await runtime.deploy(Noting, DeploymentOptions(kind=kind))
    await runtime.undeploy(deployment)
    assert seen == [(deployment.verticles[0].context, True, "hutong-worker-")] * 3


async def test_instances_have_contexts_of_their_own_and_are_listed(runtime: Runtime) -> None:
    told: list[str] = []
    options = DeploymentOptions(name="orders", instances=3, config={"limit": 7})
    deployment = await runtime.deploy(lambda: Told("orders", told), options)
    other = await runtime.deploy(Verticle)
    assert [verticle.context.name for verticle in deployment.verticles] == ["orders-1/0", "orders-1/1", "orders-1/2"]
    assert all(verticle.config["limit"] == 7 for verticle in deployment.verticles)
    assert list(runtime.deployments) == [deployment, other]
    assert [deployment.id, other.id] == ["orders-1", "Verticle-2"]
    assert repr(deployment) == "<deployment orders-1, running>"
    await runtime.undeploy(deployment)
    assert list(runtime.deployments) == [other]
    assert told == ["start orders"] * 3 + ["stop orders"] * 3 + ["hook orders"] * 3
    await runtime.undeploy(deployment)
    assert len(told) == 9


async def test_children_undeploy_first(runtime: Runtime) -> None:
    told: list[str] = []

    class Parent(Told):
        async def start(self) -> None:
            await super().start()
            for child in ("first", "second"):
                await self.runtime.deploy(lambda child=child: Told(child, told))  # type: ignore[misc]

    deployment = await runtime.deploy(lambda: Parent("parent", told))
    assert [child.parent for child in deployment.children] == [deployment, deployment]
    told.clear()
    await runtime.undeploy(deployment)
    assert told == ["stop second", "hook second", "stop first", "hook first", "stop parent", "hook parent"]
    assert runtime.deployments == ()


async def test_failed_start_stop_not_called(runtime: Runtime) -> None:
    told: list[str] = []

    class Fails(Told):
        async def start(self) -> None:
            await super().start()
            await self.runtime.deploy(lambda: Told("child", told))
            raise ValueError("no such port")

    with pytest.raises(ValueError, match="no such port"):
        await runtime.deploy(lambda: Fails("fails", told))
    assert told == ["start fails", "start child", "stop child", "hook child", "hook fails"]
    assert runtime.deployments == ()


async def test_where_one_instance_fails_the_others_are_stopped(runtime: Runtime) -> None:
    told: list[str] = []
    names = iter(("good", "bad"))

    class Fails(Told):
        async def start(self) -> None:
            await super().start()
            if self.name == "bad":
                raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        await runtime.deploy(lambda: Fails(next(names), told), DeploymentOptions(instances=2))
    assert told == ["start good", "start bad", "stop good", "hook bad", "hook good"]


async def test_what_makes_no_verticle_fails_and_leaves_nothing(runtime: Runtime) -> None:
    def raises() -> Verticle:
        raise ValueError("no configuration")

    with pytest.raises(ValueError, match="no configuration"):
        await runtime.deploy(raises)
    with pytest.raises(TypeError, match="what was to make a Verticle made <object"):
        await runtime.deploy(object)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 to 1000 instances, not 0"):
        DeploymentOptions(instances=0)
    assert runtime.deployments == ()


async def test_a_deploy_that_is_nearly_right_says_what_to_write(runtime: Runtime) -> None:
    async def make() -> Verticle:
        return Verticle()

    wrong: list[tuple[tuple[object, ...], str]] = [
        ((Told("a", []),), r"deploy\(Told\), or a function, deploy\(lambda: Told\(...\)\), not an instance"),
        (("greeter",), "a class or a function; str is neither"),
        ((Verticle, {"instances": 2}), r"DeploymentOptions\(instances=2, ...\), not dict"),
        ((make,), "belongs into `async def start`"),
    ]
    for arguments, sentence in wrong:
        with pytest.raises(UsageError, match=sentence):
            await runtime.deploy(*arguments)  # type: ignore[arg-type]
    assert runtime.deployments == ()


async def test_a_stop_that_fails_is_raised_once_all_is_ended(runtime: Runtime) -> None:
    told: list[str] = []

    class Fails(Told):
        async def stop(self) -> None:
            raise ValueError("cannot stop")

    deployment = await runtime.deploy(lambda: Fails("fails", told))
    with pytest.raises(ValueError, match="cannot stop"):
        await runtime.undeploy(deployment)
    assert told == ["start fails", "hook fails"]
    assert deployment.state is DeploymentState.ENDED


async def test_close_hook(runtime: Runtime) -> None:
    told: list[str] = []
    context = runtime.context()
    runtime.exception_handler = lambda context, error: told.append(str(error))

    async def slow() -> None:
        await asyncio.sleep(0)
        told.append("slow" if context.is_current else "elsewhere")

    def fails() -> None:
        raise ValueError("hook failed")

    def removed() -> None:
        told.append("removed")

    for hook in (lambda: told.append("first"), fails, slow, removed):
        context.add_close_hook(hook)
    context.remove_close_hook(removed)
    context.remove_close_hook(removed)
    await context.close()
    await context.close()
    assert told == ["slow", "hook failed", "first"]
    with pytest.raises(RuntimeError, match="takes no more close hooks"):
        context.add_close_hook(slow)


async def test_a_context_is_kept_while_it_has_hooks_or_uses_a_pool_by_name(runtime: Runtime) -> None:
    def hook() -> None: ...

    for kind in ContextKind:
        context, user = runtime.context(kind), runtime.context(kind, pool="reports")
        for one in (context, user):
            one.add_close_hook(hook)
        assert runtime._kept == {context, user}
        for one in (context, user):
            one.remove_close_hook(hook)
        assert runtime._kept == {user}
        await user.close()
        assert runtime._kept == set()


@pytest.mark.parametrize("kind", list(ContextKind))
async def test_a_handler_may_undeploy_its_own_verticle(runtime: Runtime, kind: ContextKind) -> None:
    told: list[str] = []
    loop, cancelled = asyncio.get_running_loop(), asyncio.Event()
    deployment = await runtime.deploy(lambda: Told("self", told), DeploymentOptions(kind=kind))

    async def undeploys(_: None) -> None:
        try:
            await runtime.undeploy(deployment)
        finally:
            loop.call_soon_threadsafe(cancelled.set)

    deployment.verticles[0].context.run(undeploys, None)
    await cancelled.wait()
    await runtime.undeploy(deployment)
    assert told == ["start self", "stop self", "hook self"]


@pytest.mark.parametrize("kind", list(ContextKind))
async def test_what_fails_when_nobody_waits_any_more_is_logged(kind: ContextKind, caplog: Logged) -> None:
    class Fails(Verticle):
        async def stop(self) -> None:
            raise ValueError("cannot stop")

    loop, closing = asyncio.get_running_loop(), asyncio.Event()
    async with Runtime(SystemClock()) as runtime:
        deployment = await runtime.deploy(Fails, DeploymentOptions(kind=kind))
        context = deployment.verticles[0].context
        context.add_close_hook(lambda: loop.call_soon_threadsafe(closing.set))
        context.run(lambda _: runtime.undeploy(deployment), None)
        await closing.wait()
        with pytest.raises(ValueError, match="cannot stop"):
            await runtime.undeploy(deployment)
    gc.collect()
    assert [record.getMessage() for record in caplog.records] == [
        "the caller has gone, and what it asked for failed: cannot stop"
    ]


async def test_a_coroutine_that_comes_while_its_context_is_closed_may_clean_up(runtime: Runtime) -> None:
    ended: list[str] = []
    context, done = runtime.context(), asyncio.Event()

    async def late(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
            if name == "after":
                done.set()

    async def hook() -> None:
        context.run(late, "in the hook")

    context.run(late, "before")
    context.add_close_hook(hook)
    await context.close()
    context.run(late, "after")
    await done.wait()
    assert ended == ["before", "in the hook", "after"]


async def test_undeploying_what_starts_ends_its_start(runtime: Runtime) -> None:
    told: list[str] = []
    begun = asyncio.Event()

    class Hangs(Told):
        async def start(self) -> None:
            await super().start()
            begun.set()
            await asyncio.Event().wait()

    deploying = asyncio.get_running_loop().create_task(runtime.deploy(lambda: Hangs("hangs", told)))
    await begun.wait()
    [deployment] = runtime.deployments
    await runtime.undeploy(deployment)
    with pytest.raises(RuntimeError, match="Hangs-1 was undeployed while it started"):
        await deploying
    assert told == ["start hangs", "hook hangs"]


async def test_an_ending_parent_takes_no_more_children(runtime: Runtime) -> None:
    refused: list[str] = []

    class Late(Verticle):
        async def stop(self) -> None:
            try:
                await self.runtime.deploy(Verticle)
            except RuntimeError as error:
                refused.append(str(error))

    await runtime.undeploy(await runtime.deploy(Late))
    assert refused == ["Late-1 is being undeployed: it takes no more children"]


async def test_closing_the_runtime_undeploys_the_youngest_first() -> None:
    told: list[str] = []
    async with Runtime(SystemClock()) as runtime:
        for name in ("old", "young"):
            await runtime.deploy(lambda name=name: Told(name, told))  # type: ignore[misc]
        told.clear()
    assert told == ["stop young", "hook young", "stop old", "hook old"]
    with pytest.raises(RuntimeError, match="closing"):
        await runtime.deploy(Verticle)
    with pytest.raises(RuntimeError, match="the runtime is closed"):
        runtime.context()
    await runtime.close()


async def test_deployed_from_a_plain_coroutine_nobody_is_its_parent(runtime: Runtime) -> None:
    deployment: Deployment = await runtime.deploy(Verticle)
    assert deployment.parent is None


async def test_a_blocked_context_holds_up_no_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "ANSWER_MS_MAX", 20)
    monkeypatch.setattr(runtime_module, "WORK_END_MS_MAX", 20)
    told, release, begun = list[str](), threading.Event(), threading.Event()

    def blocks(_: None) -> None:
        begun.set()
        release.wait(30)

    runtime = Runtime(SystemClock(), event_loops=2, exception_handler=lambda context, error: told.append(str(error)))
    deployment = await runtime.deploy(lambda: Told("stuck", told), DeploymentOptions(kind=ContextKind.WORKER))
    context = runtime.context(loop=1, name="blocked")
    context.add_close_hook(lambda: told.append("hook"))
    for blocked in (deployment.verticles[0].context, context):
        blocked.run(blocks, None)
        assert await asyncio.to_thread(begun.wait, 10)
        begun.clear()
    told.clear()
    with pytest.raises(RuntimeError, match="is blocked by a handler: its stop is not called"):
        await runtime.undeploy(deployment)
    await runtime.close()
    assert told == [
        "Told-1 is blocked by a handler: it is closed without its close hooks",
        "blocked is blocked by a handler: it is closed without its close hooks",
    ]
    release.set()
    for thread in threading.enumerate():
        if thread.name.startswith(("loop-", "hutong-worker")):
            thread.join(10)
