"""``python -m cpms`` is ``cpms``."""

import sys

from cpms.cli.main import main

sys.exit(main())
