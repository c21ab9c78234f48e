"""Runtime: contexts, verticles, loops and threads; what joins the pure rooms to them. Knows no messaging.

What programs use can be imported from here: `from hutong.runtime import Verticle`.
"""

from typing import TYPE_CHECKING

from hutong.foundation.lazy_exports import lazy_exports

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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "runtime.contexts.context_timers": ("ContextTimer",),
        "runtime.contexts.contexts": ("Context", "ContextKind", "current_context"),
        "runtime.runtime": ("Runtime",),
        "runtime.verticles": ("Deployment", "DeploymentOptions", "Verticle"),
        "runtime.watch.blocked": ("BlockedLimits",),
    },
)
