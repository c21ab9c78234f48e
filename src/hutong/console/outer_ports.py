"""The ports of a console that the command line implements: what a console in a program of its own does without.

Decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.console.nodes.moving.operators import OperatorRequests
    from hutong.console.pipelines.pipeline_facts import PipelineFacts


@dataclass(frozen=True, slots=True)
class OuterPorts:
    """`pipelines` are those of one folder, `operators` requests that the client library cannot send."""

    pipelines: PipelineFacts | None = None
    operators: OperatorRequests | None = None


NO_PORTS: Final = OuterPorts()
