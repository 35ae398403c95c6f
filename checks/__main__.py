"""``python -m checks``."""

import sys

try:
    from checks.cli import main
except ModuleNotFoundError as error:
    sys.stderr.write(
        f"checks: {sys.executable} has no package '{error.name}'; run this in the environment that moe-race is "
        "installed in, or install it there with pip\n"
    )
    sys.exit(2)

main()
