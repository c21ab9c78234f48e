"""The resources that all parts of one journal share: bounds, time, disk, workers, files, cache, figures, events."""

from dataclasses import dataclass

from hutong.foundation.clock import Clock
from hutong.foundation.regions import RegionCache
from hutong.foundation.timers import TimerWheel
from hutong.journal.events import JournalEvents
from hutong.journal.figures import JournalFigures
from hutong.journal.files.disk import Disk
from hutong.journal.files.jobs import Jobs
from hutong.journal.files.segments import Segments
from hutong.journal.settings import JournalSettings


@dataclass(frozen=True, slots=True)
class JournalResources:
    """Made once for each journal, by `parts`."""

    settings: JournalSettings
    clock: Clock
    timers: TimerWheel
    disk: Disk
    jobs: Jobs
    segments: Segments
    cache: RegionCache
    figures: JournalFigures
    events: JournalEvents


class JournalPart:
    """A part of a journal, with the shared resources as attributes of its own."""

    def __init__(self, resources: JournalResources) -> None:
        self._settings = resources.settings
        self._clock = resources.clock
        self._timers = resources.timers
        self._disk = resources.disk
        self._jobs = resources.jobs
        self._segments = resources.segments
        self._cache = resources.cache
        self._figures = resources.figures
        self._events = resources.events
