"""A page that is made in steps, between which others have the loop.

Strategy: one page is made at a time. All who ask meanwhile get that one, so that the loop makes one step in each
iteration, however many ask.

Knows nothing of what is on the page.
"""

from collections.abc import Callable, Iterator


class SlicedPage:
    """`steps` begins a new making; the pieces of all its steps are the page."""

    def __init__(
        self, steps: Callable[[], Iterator[bytes]], content_type: str, call_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self.content_type = content_type
        self._steps = steps
        self._call_soon = call_soon
        self._waiting: list[Callable[[list[bytes] | None], None]] = []
        self._making: Iterator[bytes] | None = None
        self._pieces: list[bytes] = []

    def ask(self, then: Callable[[list[bytes] | None], None]) -> None:
        """Call `then` once with the page's pieces, in a later iteration of the loop; with None where a step failed."""
        self._waiting.append(then)
        if self._making is None:
            self._making = self._steps()
            self._call_soon(self._step)

    def _step(self) -> None:
        making = self._making
        assert making is not None, "a step belongs to a making"
        try:
            piece = next(making)
        except StopIteration:
            self._end()
        except Exception:
            self._end(is_whole=False)
            raise
        else:
            if piece:
                self._pieces.append(piece)
            self._call_soon(self._step)

    def _end(self, *, is_whole: bool = True) -> None:
        page = self._pieces if is_whole else None
        waiting, self._waiting, self._pieces, self._making = self._waiting, [], [], None
        for then in waiting:
            then(page)
