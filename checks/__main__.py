"""``python -m checks``."""

from checks.cli import main

main()
