"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# Machines are noisy: an example that takes long says nothing about the code.
settings.register_profile("xtraced", deadline=None)
settings.load_profile("xtraced")
