"""The compiled modules; everything else about the package is in pyproject.toml.

Each is a plain Python file with a .pxd beside it that gives C types (Cython's
pure-Python mode). Where there is no C compiler, the extension is left out and the
same .py file runs uncompiled, slower, with equal results.
"""

import os

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

extensions = cythonize(
    [
        Extension(name, [source], extra_compile_args=["-O2"])
        for name, source in COMPILED.items()
    ],
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
