"""`python -m xtracectl` is `xtracectl`."""

import sys

from xtracectl.cli import program

sys.exit(program())
