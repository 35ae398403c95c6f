"""``python -m warehouse``."""

from warehouse.cli import main

main()
