"""Code that no simulation reached: lines of journal, broker, groups and transactions, function by function.

Strategy: each worker process runs its share of the seeds under coverage.py, and the results are put together. A line
counts as reached if any seed did. Lines that run while modules are imported count, too.

python -m tests.fault.simulation_coverage --seeds 1..1000 --minutes 0.2    prints a figure for each package, then lines
"""

import argparse
import ast
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import coverage

import hutong

PACKAGES: Final = ("journal", "broker", "groups", "transactions")
_ROOT: Final = Path(hutong.__file__).parent


def measure(seeds: range, minutes: float, folder: str) -> None:
    """Run seeds in this process under coverage; the data goes to a file of its own in `folder`."""
    logging.disable(logging.CRITICAL)
    measured = coverage.Coverage(f"{folder}/data", data_suffix=True, include=[f"{_ROOT}/{name}/*" for name in PACKAGES])
    measured.start()
    # Imported under coverage: else all definitions would count as missed.
    from hutong.testing.simulation.plan.drawing import draw_plan
    from hutong.testing.simulation.plan.faults import kinds_of
    from hutong.testing.simulation.simulation import Simulation

    for seed in seeds:
        Simulation(draw_plan(seed, minutes, kinds_of("all"))).run()
    measured.stop()
    measured.save()


def missed_of(measured: coverage.Coverage, package: str) -> Iterator[tuple[Path, int, list[int]]]:
    """(file, number of its statements, those that were missed) of each file that was imported."""
    for name in sorted(measured.get_data().measured_files()):
        path = Path(name)
        if path.is_relative_to(_ROOT / package):
            _, statements, _, missing, _ = measured.analysis2(name)
            yield path, len(statements), missing


def by_function(path: Path, lines: Sequence[int]) -> Iterator[str]:
    """`name 12-14, 20` for each function or method with missed lines."""
    functions = [
        (node.lineno, node.end_lineno or node.lineno, node.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    def name_of(line: int) -> str:
        # The innermost begins last.
        return max((each for each in functions if each[0] <= line <= each[1]), default=(0, 0, "module"))[2]

    for name, group in groupby(lines, name_of):
        yield f"{name} {', '.join(map(str, group))}"


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m tests.fault.simulation_coverage", description=__doc__)
    parser.add_argument("--seeds", default="1..1000")
    parser.add_argument("--minutes", type=float, default=0.2)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(words)
    first, _, last = options.seeds.partition("..")
    with tempfile.TemporaryDirectory() as folder:
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            shares = [range(int(first) + job, int(last) + 1, options.jobs) for job in range(options.jobs)]
            list(pool.map(measure, shares, [options.minutes] * len(shares), [folder] * len(shares)))
        measured = coverage.Coverage(f"{folder}/data")
        measured.combine([folder])
        for package in PACKAGES:
            files = list(missed_of(measured, package))
            total, missed = sum(count for _, count, _ in files), sum(len(lines) for _, _, lines in files)
            print(f"{package}: {100 * (total - missed) / total:.1f} % of {total} lines")
        for package in PACKAGES:
            for path, _, lines in missed_of(measured, package):
                for sentence in by_function(path, lines):
                    print(f"{path.relative_to(_ROOT)}: {sentence}")


if __name__ == "__main__":
    main(sys.argv[1:])
