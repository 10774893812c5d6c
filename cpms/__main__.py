"""``python -m cpms`` is ``cpms``."""

import sys

from cpms.cli import main

sys.exit(main())
