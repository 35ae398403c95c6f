"""``python -m warehouse``."""

import sys

try:
    from warehouse.cli import main
except ModuleNotFoundError as error:
    sys.stderr.write(
        f"warehouse: {sys.executable} has no package '{error.name}'; run this in the environment that moe-race is "
        "installed in, or install it there with pip\n"
    )
    sys.exit(2)

main()
