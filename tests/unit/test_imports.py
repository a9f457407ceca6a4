"""Imports point one way, and a few things are done in one place only.

LAYERS is the order of design.md, section 2: a module imports from its own layer or from earlier
ones, never from a later one.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LAYERS: dict[str, tuple[str, ...]] = {
    "base": ("tracelib.errors", "tracelib.units", "tracelib.version"),
    "pure": (
        "tracelib.causes", "tracelib.chunks", "tracelib.compressed", "tracelib.cpulist",
        "tracelib.events",
        "tracelib.kvmtrace",
        "tracelib.losses", "tracelib.masks", "tracelib.packing", "tracelib.records",
        "tracelib.ring", "tracelib.rows",
        "tracelib.segment", "tracelib.xentrace",
    ),
    "files and sockets": (
        "tracelib.control",
        "tracelib.kvmtrace.member", "tracelib.kvmtrace.names", "tracelib.kvmtrace.reader",
        "tracelib.reading", "tracelib.status", "tracelib.store",
        "tracelib.symbols",
        "tracelib.xentrace.reader", "tracelib.xentrace.spool",
    ),
    "numpy": (
        "tracelib.batches", "tracelib.clock", "tracelib.columns", "tracelib.counting",
        "tracelib.gaps", "tracelib.kvmtrace.verify",
        "tracelib.merge", "tracelib.xentrace.verify",
    ),
    "analysis": ("tracelib.analysis",),
    "export": ("tracelib.export", "tracelib.selection", "tracelib.stream"),
    "programs": ("xtraced", "xtracectl"),
}  # fmt: skip
ORDER = list(LAYERS)

TOUCHES_THE_WORLD = {
    "ctypes", "io", "logging", "mmap", "os", "pathlib", "random", "select", "shutil", "socket",
    "subprocess", "tempfile", "threading", "time",
}  # fmt: skip

# Module (and all below it): what it may import neither itself nor through others.
NEVER: dict[str, set[str]] = {
    "tracelib": {"trio", "structlog", "xtraced", "xtracectl"},
    "xtraced": {
        "xtracectl", "numpy", "pyarrow", *LAYERS["numpy"], *LAYERS["analysis"], *LAYERS["export"]
    },
    "xtracectl": {"xtraced", "trio", "structlog"},
}  # fmt: skip

FILES_ARE_WRITTEN_BY = "tracelib.store.fsops"
MSGPACK_IS_SPOKEN_BY = "tracelib.packing"


def module_name(path: Path) -> str:
    """ "tracelib.store.fsops" for tracelib/store/fsops.py; packages without __init__."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "daemon":
        parts.pop(0)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


FILES = {
    module_name(path): path
    for folder in ("tracelib", "daemon")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(), str(path)) for name, path in FILES.items()}


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported anywhere in the tree, `from package import module` too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            assert node.module is not None
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in below if name in FILES]
            yield from modules
            if len(modules) < len(below):
                yield node.module


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def layer(module: str) -> str:
    """The layer of the longest listed name that the module lies within."""
    listed = [
        (len(package), name)
        for name, packages in LAYERS.items()
        for package in packages
        if within(module, package)
    ]
    return max(listed)[1] if listed else "unlisted"


IMPORTS = {name: sorted(set(imports(tree))) for name, tree in TREES.items()}
OURS = [name for name in FILES if name != "tracelib"]  # `tracelib` itself: tracelib.open.


@pytest.mark.parametrize("module", OURS)
def test_imports_point_one_way(module):
    assert layer(module) in ORDER, "add it to LAYERS"
    for imported in IMPORTS[module]:
        if layer(imported) in ORDER:
            assert ORDER.index(layer(imported)) <= ORDER.index(layer(module)), imported


@pytest.mark.parametrize("module", [name for name in OURS if layer(name) in ("base", "pure")])
def test_the_core_touches_nothing(module):
    """No files, sockets, clocks, threads: bytes in, values out."""
    assert not {name.partition(".")[0] for name in IMPORTS[module]} & TOUCHES_THE_WORLD


@pytest.mark.parametrize("package", NEVER)
def test_never_imported(package):
    """Neither directly nor by way of one of our own modules."""
    reached: dict[str, list[str]] = {
        name: [name] for name in FILES if within(name, package)
    }
    pending = list(reached)
    while pending:
        module = pending.pop()
        for imported in IMPORTS.get(module, ()):
            way = [*reached[module], imported]
            assert not any(within(imported, name) for name in NEVER[package]), " -> ".join(way)
            # `tracelib` itself reaches the readers, lazily: who asks for it wants them.
            if imported not in reached:
                reached[imported] = way
                pending.append(imported)


def test_one_module_speaks_msgpack():
    users = [name for name, imported in IMPORTS.items() if "msgpack" in imported]
    assert users == [MSGPACK_IS_SPOKEN_BY]


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Calls with the called name's last part."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name, node


def opens_for_writing(name: str, call: ast.Call) -> bool:
    if name in ("write_text", "write_bytes", "touch", "mkstemp", "mkdtemp", "creat"):
        return True
    if name in ("NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile"):
        return True
    if name not in ("open", "fdopen") or "os.devnull" in ast.unparse(call):
        return False
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    modes = [node.value for node in arguments if isinstance(node, ast.Constant)]
    by_mode = any(
        isinstance(mode, str) and re.fullmatch("[rwabxt+]{1,4}", mode) and set(mode) & set("wax+")
        for mode in modes
    )
    return by_mode or bool(re.search("O_(WRONLY|RDWR|CREAT)", ast.unparse(call)))


@pytest.mark.parametrize("module", FILES)
def test_one_module_opens_files_for_writing(module):
    lines = [call.lineno for name, call in calls(TREES[module]) if opens_for_writing(name, call)]
    assert module == FILES_ARE_WRITTEN_BY or not lines


@pytest.mark.parametrize(
    ("code", "writes"),
    [
        ("open(path)", False),
        ("open(path, 'rb')", False),
        ("open('w')", True),  # Or a file of that name; Path('x').open('w') looks the same.
        ("open(path, 'wb')", True),
        ("open(path, mode='r+')", True),
        ("path.open('a')", True),
        ("path.open()", False),
        ("os.fdopen(fd, 'w')", True),
        ("os.open(path, os.O_RDONLY | os.O_CLOEXEC)", False),
        ("os.open(path, os.O_RDWR)", True),
        ("os.open(os.devnull, os.O_WRONLY)", False),
        ("Path(path).write_text('x')", True),
        ("tempfile.NamedTemporaryFile()", True),
        ("stream.write(b'x')", False),
    ],
)
def test_opens_for_writing(code, writes):
    ((name, call),) = [
        found for found in calls(ast.parse(code)) if found[0] not in ("Path",)
    ]
    assert opens_for_writing(name, call) is writes


@pytest.mark.parametrize("module", [name for name in FILES if within(name, "tracelib")])
def test_the_library_never_prints(module):
    assert "print" not in [name for name, _ in calls(TREES[module])]
    attributes = (node for node in ast.walk(TREES[module]) if isinstance(node, ast.Attribute))
    assert not {ast.unparse(node) for node in attributes} & {"sys.stdout", "sys.stderr"}


def test_packages_are_listed():
    """setuptools gets them from pyproject.toml; none is missing, and daemon/ is not one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = project["tool"]["setuptools"]["packages"]
    found = [name for name, path in FILES.items() if path.name == "__init__.py"]
    assert sorted(listed) == sorted(found)
    assert not (ROOT / "daemon/__init__.py").exists()
