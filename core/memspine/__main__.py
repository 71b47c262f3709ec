"""`python -m memspine`: the command line, where its script is not on the path."""

from __future__ import annotations

import sys

from memspine.cli import main

sys.exit(main())
