"""Pages in headless Chromium."""

from __future__ import annotations

import subprocess
from pathlib import Path


def console(chromium: str, page: Path, profile: Path) -> list[str]:
    """Open ``page`` and return the lines that the browser's console got."""
    command = [
        *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *("--disable-dev-shm-usage", "--enable-logging=stderr", f"--user-data-dir={profile}"),
        *("--dump-dom", page.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Race report" in done.stdout
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]
