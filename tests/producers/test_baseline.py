"""An earlier commit's dispatch as a contestant."""

from __future__ import annotations

import subprocess

import pytest

from producers.baseline import extract
from producers.errors import UsageError


def git(root, *arguments):
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A repository with two commits of dispatch and an edited working tree."""
    root = tmp_path / "checkout"
    (root / "dispatch").mkdir(parents=True)
    (root / "producers").mkdir()
    git(root, "init", "-q")
    for version in (1, 2):
        (root / "dispatch" / "__init__.py").write_text(f"VERSION = {version}\n")
        (root / "producers" / "__init__.py").write_text(f"VERSION = {version}\n")
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", f"version {version}")
    (root / "dispatch" / "__init__.py").write_text("VERSION = 3\n")
    return root


@pytest.mark.parametrize(("revision", "version"), [("HEAD", 2), ("HEAD~1", 1)])
def test_dispatch_and_only_dispatch_is_taken(checkout, tmp_path, revision, version):
    commit = extract(checkout, revision, tmp_path / "old")

    assert commit == git(checkout, "rev-parse", revision)
    assert (tmp_path / "old" / "dispatch" / "__init__.py").read_text() == f"VERSION = {version}\n"
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["dispatch"]


@pytest.mark.parametrize("revision", ["nowhere", "--help", "-x"])
def test_what_is_no_revision_is_named(checkout, tmp_path, revision):
    with pytest.raises(UsageError, match=f"--baseline {revision}: git rev-parse failed"):
        extract(checkout, revision, tmp_path / "old")
