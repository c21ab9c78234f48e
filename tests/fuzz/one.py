"""One target for a while, in a process of its own: `python -m tests.fuzz.one TARGET --seconds N`; see `make fuzz`.

Strategy: atheris (libFuzzer) where it is, guided by what code an input reaches, which Python tells it since our modules
are imported under its eye; else the mutations of the tests, without end. Whichever finds something leaves the input in
the target's folder as `crash-...` and ends with status 1. Every sixteenth input is measured.

Decides nothing about what is right: `target.check` does.
"""

import argparse
import hashlib
import sys
import time
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

MEASURED_EACH: Final = 16
INPUT_S_MAX: Final = 10  # of one input, under libFuzzer
RSS_MIB_MAX: Final = 1_024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--engine", choices=["atheris", "plain"], default="atheris")
    options = parser.parse_args()
    folder: Path = options.folder / options.target
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    if options.engine == "atheris":
        try:
            import atheris  # noqa: F401
        except ModuleNotFoundError:
            print("atheris is not there (it needs Python below 3.12): plain mutations instead")
        else:
            return _with_atheris(options.target, options.seconds, folder)
    return _plainly(options.target, options.seconds, folder)


def _with_atheris(name: str, seconds: int, folder: Path) -> int:
    import atheris

    with atheris.instrument_imports(include=["hutong"], enable_loader_override=False):
        from tests.fuzz.targets import TARGETS
    from tests.fuzz.corpus import kept
    from tests.fuzz.target import INPUT_BYTES_MAX, check

    _watch_generated_code(atheris)
    target = TARGETS[name]
    for data in [*target.seeds(), *kept(name)]:
        (folder / "corpus" / hashlib.sha1(data).hexdigest()).write_bytes(data)
    numbers = count()

    def one(data: bytes) -> None:
        check(target, data, with_memory=next(numbers) % MEASURED_EACH == 0)

    words = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={INPUT_S_MAX}",
        f"-rss_limit_mb={RSS_MIB_MAX}",
        f"-artifact_prefix={folder}/",
        "-print_final_stats=1",
        str(folder / "corpus"),
    ]
    atheris.Setup(words, one)
    atheris.Fuzz()  # ends the process
    return 0


def _watch_generated_code(atheris: Any) -> None:
    """Decoders of Kafka's messages are made from tables when they are first needed: the eye is on them too."""
    from hutong.wire.kafka.codec.source import SourceCode

    plain = SourceCode.compile

    def compiled(self: SourceCode, function: str) -> Callable[..., Any]:
        watched: Callable[..., Any] = atheris.instrument_func(plain(self, function))
        return watched

    SourceCode.compile = compiled  # type: ignore[method-assign]


def _plainly(name: str, seconds: int, folder: Path) -> int:
    from tests.fuzz.corpus import kept
    from tests.fuzz.mutate import mutations
    from tests.fuzz.target import check
    from tests.fuzz.targets import TARGETS

    target = TARGETS[name]
    seeds = [*target.seeds(), *kept(name)]
    seed = time.time_ns()
    print(f"{name}: seed {seed}", flush=True)
    over = time.monotonic() + seconds
    for number, data in enumerate(mutations(seeds, 1 << 62, Random(seed))):
        try:
            check(target, data, with_memory=number % MEASURED_EACH == 0)
        except BaseException:  # noqa: BLE001  # whatever it is, its input is kept
            (folder / f"crash-{hashlib.sha1(data).hexdigest()}").write_bytes(data)
            traceback.print_exc()
            return 1
        if number % 64 == 0 and time.monotonic() > over:
            print(f"stat::number_of_executed_units: {number + 1}")
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
