"""`python -m xtraced` is `xtraced`."""

import sys

from xtraced.cli import main

sys.exit(main())
