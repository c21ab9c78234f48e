"""Pipelines that are declared, in TOML or Python: read, checked, built of Spark's parts, run under a supervisor.

What a pipeline written in Python needs is here by name. Reading and checking import no Spark.
"""

from hutong.pipelines.declared.declare.definition import Pipeline, Sink, Source, Transform, Watermark

__all__ = ["Pipeline", "Sink", "Source", "Transform", "Watermark"]
