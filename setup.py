"""The compiled modules; everything else about the package is in pyproject.toml.

Each is a plain Python file with a .pxd beside it that gives C types (Cython's
pure-Python mode). Where there is no C compiler, the extension is left out and the
same .py file runs uncompiled, slower, with equal results.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

COMPILED = {
    "tracelib.ring.cycles": "tracelib/ring/cycles.py",
    "tracelib.ring.fastpath": "tracelib/ring/fastpath.py",
    "tracelib.ring.producer": "tracelib/ring/producer.py",
    "tracelib.analysis.engine": "tracelib/analysis/engine.py",
    "tracelib.analysis.histograms": "tracelib/analysis/histograms.py",
    "tracelib.analysis.notes": "tracelib/analysis/notes.py",
    "tracelib.analysis.pairs": "tracelib/analysis/pairs.py",
    "tracelib.analysis.sieve": "tracelib/analysis/sieve.py",
    "tracelib.analysis.states": "tracelib/analysis/states.py",
    "tracelib.analysis.tables": "tracelib/analysis/tables.py",
    "tracelib.analysis.vcpus": "tracelib/analysis/vcpus.py",
    "tracelib.kvmtrace.records": "tracelib/kvmtrace/records.py",
    "tracelib.rows": "tracelib/rows.py",
    "tracelib.segment.order": "tracelib/segment/order.py",
    "tracelib.export.engine": "tracelib/export/engine.py",
    "tracelib.xentrace.walk": "tracelib/xentrace/walk.py",
    "xtraced.sources.sim.engine": "daemon/xtraced/sources/sim/engine.py",
}



def declarations_changed() -> bool:
    """Whether a .pxd is newer than C code made before: Cython looks only at the .py then."""
    declared = [path for root in ("tracelib", "daemon") for path in Path(root).rglob("*.pxd")]
    newest = max(path.stat().st_mtime for path in declared)
    made = [Path(source).with_suffix(".c") for source in COMPILED.values()]
    return any(path.exists() and path.stat().st_mtime < newest for path in made)


extensions = cythonize(
    [
        Extension(name, [source], extra_compile_args=["-O2"])
        for name, source in COMPILED.items()
    ],
    force=declarations_changed(),
    # "." too: an isolated build does not have the package on sys.path.
    include_path=[".", "daemon"],
    compiler_directives={
        "language_level": 3,
        "boundscheck": False,
        "wraparound": False,
        "cdivision": True,
    },
)
for extension in extensions:
    # Set here because cythonize() makes new Extensions and drops the option.
    extension.optional = True

# Compiling is most of the time that an installation takes.
setup(ext_modules=extensions, options={"build_ext": {"parallel": os.cpu_count()}})
