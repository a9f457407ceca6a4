"""From settings to a source."""

from __future__ import annotations

from xtraced.checks import sim_options
from xtraced.settings import Settings
from xtraced.sources import Source


def make_source(settings: Settings) -> Source:
    """The source that the settings name, not opened yet."""
    kind = settings.source.kind
    pages = settings.source.pages
    if kind.name == "sim":
        from xtraced.sources.sim.client import SimSource

        return SimSource(sim_options(settings.sim), pages=pages)
    if kind.path is not None:
        from xtraced.sources.file import file_source

        return file_source(kind.path, pages=pages, truth=settings.sim.truth)
    from xtraced.sources.xen.source import XenSource

    return XenSource(pages=pages)
