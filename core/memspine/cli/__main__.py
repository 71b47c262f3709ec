"""`python -m memspine.cli`."""

from __future__ import annotations

import sys

from memspine.cli.app import main

sys.exit(main())
