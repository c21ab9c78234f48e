"""Versions of programs of the system, as they say them."""

import re
import subprocess

from tests.support.npm import chromium


def first_version(program: str) -> str:
    """The first number with dots that the program prints for `--version`."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    found = re.search(r"\d+(?:\.\d+)+", told)
    return "" if found is None else found[0]


def curl_version() -> str:
    return first_version("curl")


def chromium_version() -> str:
    return first_version(chromium())
