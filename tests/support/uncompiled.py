"""Load the plain Python form of a module that may be compiled."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType


def load_uncompiled(module: ModuleType) -> ModuleType:
    """The module of the .py file beside a compiled module, under a name of its own.

    Modules that it imports stay what they are. Given an uncompiled module, another copy.
    """
    assert module.__file__ is not None
    binary = Path(module.__file__)
    source = binary.with_name(binary.name.partition(".")[0] + ".py")
    name = f"{module.__name__}_uncompiled"
    if name not in sys.modules:
        loader = SourceFileLoader(name, str(source))
        spec = importlib.util.spec_from_loader(name, loader)
        assert spec is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        loader.exec_module(sys.modules[name])
    return sys.modules[name]
