"""`python -m xtracectl` is `xtracectl`."""

import sys

from xtracectl.cli import main

sys.exit(main())
