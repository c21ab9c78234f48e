"""The compiled pass over records; all else about the package is in pyproject.toml.

It is optional: where there is no compiler or no Python.h the build goes on without it, and Python does the same slower.
"""

import sysconfig

from setuptools import Extension, setup

# One build serves Python 3.11 and later (PEP 384). Python without its lock has no such interface yet (PEP 703).
HAS_LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[
        Extension(
            "hutong.wire.kafka.batch._record_walk",
            sources=["src/hutong/wire/kafka/batch/_record_walk.c"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if HAS_LIMITED_API else [],
            py_limited_api=HAS_LIMITED_API,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if HAS_LIMITED_API else {},
)
