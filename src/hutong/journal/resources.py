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
