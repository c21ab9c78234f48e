"""Runtime: contexts, verticles, loops and threads; what joins the pure rooms to them. Knows no messaging.

What programs use can be imported from here: `from hutong.runtime import Verticle`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.runtime.contexts.context_timers import ContextTimer
    from hutong.runtime.contexts.contexts import Context, ContextKind, current_context
    from hutong.runtime.runtime import Runtime
    from hutong.runtime.verticles import Deployment, DeploymentOptions, Verticle
    from hutong.runtime.watch.blocked import BlockedLimits

__all__ = [
    "BlockedLimits",
    "Context",
    "ContextKind",
    "ContextTimer",
    "Deployment",
    "DeploymentOptions",
    "Runtime",
    "Verticle",
    "current_context",
]

_MODULES: Final = {
    "watch.blocked": ("BlockedLimits",),
    "contexts.context_timers": ("ContextTimer",),
    "contexts.contexts": ("Context", "ContextKind", "current_context"),
    "runtime": ("Runtime",),
    "verticles": ("Deployment", "DeploymentOptions", "Verticle"),
}


def __getattr__(name: str) -> object:
    """Imported when asked for: most rooms need one module of this one."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
