"""The compiled passes over records and frames, and the links of the README; all else is in pyproject.toml.

The passes are optional: where there is no compiler or no Python.h the build goes on without them, and Python does the
same slower. A build for an index names the repository in HUTONG_REPOSITORY (and the tag in HUTONG_REFERENCE): pages
there show the README without its neighbours, so links become absolute.
"""

import os
import re
import sysconfig
from glob import glob
from pathlib import Path

from setuptools import Extension, setup

# One build serves Python 3.11 and later (PEP 384). Python without its lock has no such interface yet (PEP 703).
HAS_LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")
COMPILED = (
    "hutong.wire.kafka.batch._record_walk",
    "hutong.broker.rocketmq.records._stored_run",
    "hutong.broker.rocketmq.sends._plain_send",
    "hutong.wire.vertx._usual_frames",
)
REPOSITORY = os.environ.get("HUTONG_REPOSITORY", "").rstrip("/")
REFERENCE = os.environ.get("HUTONG_REFERENCE", "main")


def description() -> str:
    """The README; with a repository, links to files and pictures of it lead there."""
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    if not REPOSITORY:
        return text
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:|#)", rf"\1{REPOSITORY}/raw/{REFERENCE}/", text)
    return re.sub(r"(?<!!)(\[[^]]*\]\()(?!https?:|#)", rf"\1{REPOSITORY}/blob/{REFERENCE}/", text)


def urls() -> dict[str, str]:
    """The pages of the repository, if there is one."""
    pages = {"Source": "", "Documentation": "/tree/{}/docs", "Changelog": "/blob/{}/CHANGELOG.md", "Issues": "/issues"}
    return {name: REPOSITORY + page.format(REFERENCE) for name, page in pages.items()} if REPOSITORY else {}


setup(
    long_description=description(),
    long_description_content_type="text/markdown",
    project_urls=urls(),
    ext_modules=[
        Extension(
            name,
            sources=[f"src/{name.replace('.', '/')}.c"],
            depends=glob(f"src/{name.rpartition('.')[0].replace('.', '/')}/*.h"),
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if HAS_LIMITED_API else [],
            py_limited_api=HAS_LIMITED_API,
            optional=True,
        )
        for name in COMPILED
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if HAS_LIMITED_API else {},
)
