"""Run the command."""

import sys

from producers.tune.command import main

sys.exit(main())
