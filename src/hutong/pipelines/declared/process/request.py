"""The request of a supervisor to a driver, as one line of JSON: the two are different processes."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hutong.pipelines.declared.declare.definition import AVAILABLE_NOW, Pipeline
from hutong.pipelines.declared.run.run_folder import PipelineFolder, RunFolder

GRACE_S_DEFAULT = 60


@dataclass(frozen=True, slots=True)
class Request:
    """The parameters of one run. `folder` is the pipeline's, `run_id` the run's within it."""

    file: str
    folder: str
    run_id: str = ""
    master: str = "local[*]"
    settings: Mapping[str, str] | None = None
    """For Spark, from the command line."""
    once: bool = False
    spark_log: str = "off"
    attempt: int = 1
    supervisor_pid: int = 0
    grace_s: int = GRACE_S_DEFAULT
    """The time for a batch to finish after a stop request."""

    @property
    def pipeline_folder(self) -> PipelineFolder:
        return PipelineFolder(Path(self.folder))

    @property
    def run_folder(self) -> RunFolder:
        return RunFolder(Path(self.folder) / "runs" / self.run_id)

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> "Request":
        """Raises ValueError or TypeError for a line that is no request."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**fields)


def as_asked(pipeline: Pipeline, request: Request) -> Pipeline:
    """The pipeline with what the command line changes of it."""
    return replace(pipeline, trigger=AVAILABLE_NOW) if request.once and pipeline.is_endless else pipeline
