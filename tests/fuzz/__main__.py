"""`python -m tests.fuzz [TARGET...] --seconds N`: each target for so long, one after the other; what `make fuzz` runs.

What is found is printed as the line that `corpus/TARGET.txt` takes, so that every later run of the tests tries it.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of them, if none is named")
    parser.add_argument("--seconds", type=int, default=60, help="for each (default %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--engine", choices=["atheris", "plain"], default="atheris")
    parser.add_argument("--list", action="store_true", help="name the targets, and do nothing else")
    options = parser.parse_args()
    unknown = sorted(set(options.targets) - set(TARGETS))
    if options.list or unknown:
        print("\n".join([*(f"no target is called {name}; there are:" for name in unknown[:1]), *TARGETS]))
        return 2 if unknown else 0
    found = 0
    for name in options.targets or TARGETS:
        found += _run(name, options)
    return 1 if found else 0


def _run(name: str, options: argparse.Namespace) -> int:
    """The number of inputs that were found."""
    folder: Path = options.folder / name
    before = set(folder.glob("*-*"))
    words = ["--seconds", str(options.seconds), "--folder", str(options.folder), "--engine", options.engine]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.one", name, *words], capture_output=True, text=True, check=False
    )
    told = f"{done.stdout}\n{done.stderr}".splitlines()
    count = next((line.split()[-1] for line in told if "number_of_executed_units" in line), "?")
    crashes = sorted(set(folder.glob("*-*")) - before)
    print(f"{name}: {count} inputs in {options.seconds} s, {len(crashes)} found", flush=True)
    if done.returncode and not crashes:
        print("\n".join(told[-30:]))
        return 1
    for path in crashes:
        print("\n".join(line for line in told if "Error" in line or 'File "' in line))
        print(f"{path.name.partition('-')[0]}: {path.read_bytes().hex()}", flush=True)
    return len(crashes)


if __name__ == "__main__":
    sys.exit(main())
