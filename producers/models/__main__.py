"""`python -m producers.models`: look at a model, or carry the upcycled one to a machine without a network.

    python -m producers.models show upcycled-smollm2
    python -m producers.models split FOLDER        # here: the GGUF file in parts of at most 40 MB
    python -m producers.models join FOLDER FILE    # there: the parts together again, hash compared

Exit codes: 0 done; 2 the model, a part or a folder is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from producers.errors import UsageError
from producers.models import NAMES, carry, load_model


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="python -m producers.models",
        description=(__doc__ or "").split("\n", maxsplit=1)[0],
    )
    actions = parser.add_subparsers(dest="action", required=True)
    show = actions.add_parser("show", help="load a model and print what it is")
    show.add_argument("model", help=f"{', '.join(NAMES)}, or a folder")
    show.add_argument("--device", default="cpu", help="default: cpu")
    show.add_argument("--seed", type=int, default=0)
    split = actions.add_parser("split", help="write the upcycled model's file in parts")
    split.add_argument("folder", type=Path)
    join = actions.add_parser("join", help="put the parts together")
    join.add_argument("folder", type=Path)
    join.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    try:
        for line in _run(options):
            sys.stdout.write(f"{line}\n")
    except UsageError as error:
        sys.stderr.write(f"models: {error}\n")
        return error.exit_code
    return 0


def _run(options: argparse.Namespace) -> list[str]:
    if options.action == "show":
        facts = load_model(options.model, device=options.device, seed=options.seed).facts
        return [f"{name}: {value}" for name, value in asdict(facts).items()]
    if options.action == "split":
        return [f"{part} {part.stat().st_size} bytes" for part in carry.split(options.folder)]
    return [carry.instructions(carry.join(options.folder, options.file))]


if __name__ == "__main__":
    sys.exit(main())
