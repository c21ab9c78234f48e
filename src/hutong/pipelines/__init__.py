"""Data pipelines on Spark: the data source behind `format("hutong")`, and jobs that use it.

Reaches brokers by the Kafka wire protocol alone, so everything here works against any Kafka cluster. Knows nothing of
how our own broker is built. Only this package imports pyspark, pyarrow and numba, and only when a pipeline runs.
"""

from hutong.pipelines.engine.failures import plain_errors
from hutong.pipelines.engine.failures import translate as explain_error

__all__ = ["explain_error", "plain_errors"]
