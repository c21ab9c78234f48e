"""Runs a declared pipeline under spark-submit: `spark-submit --py-files hutong.zip run_pipeline.py orders.toml`."""

import sys

from hutong.pipelines.declared.submitted import main

if __name__ == "__main__":
    sys.exit(main())
