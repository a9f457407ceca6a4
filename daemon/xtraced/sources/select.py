"""From settings to a source."""

from __future__ import annotations

from tracelib.errors import SourceError
from xtraced.settings import Settings
from xtraced.sources import Source


def make_source(settings: Settings) -> Source:
    """The source that the settings name, not opened yet. Raises SourceError, UsageError."""
    kind = settings.source.kind
    if kind.name == "sim":
        from xtraced.sources.sim.client import SimSource

        return SimSource(_sim_options(settings), pages=settings.source.pages)
    if kind.name == "file":
        from xtraced.sources.file import FileSource

        assert kind.path is not None
        return FileSource(kind.path, _sim_options(settings), pages=settings.source.pages)
    raise SourceError(
        "this release cannot read a real Xen's rings yet",
        hint="try --source sim, or --source file:PATH",
    )
