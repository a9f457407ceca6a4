"""The service: takes trace records out of the hypervisor's rings and keeps them.

DESIGN.md has the task tree, the shutdown order and what happens when something fails.
"""

from tracelib.version import VERSION as __version__

__all__ = ["__version__"]
