from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from producers.models import __main__ as command
from producers.models import carry, smollm
from producers.models.loaded import ModelError

CONTENT = bytes(range(256)) * 10


@pytest.fixture
def gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small file that passes for the released one."""
    path = tmp_path / "released.gguf"
    path.write_bytes(CONTENT)
    monkeypatch.setenv(smollm.VARIABLE, str(path))
    for module in (smollm, carry):
        monkeypatch.setattr(module, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    return path


def test_parts_are_small_and_make_the_file_again(gguf: Path, tmp_path: Path) -> None:
    parts = carry.split(tmp_path / "parts", part_bytes=1000)
    assert [part.stat().st_size for part in parts] == [1000, 1000, 560]
    whole = carry.join(tmp_path / "parts", tmp_path / "there" / "model.gguf")
    assert whole.read_bytes() == CONTENT


@pytest.mark.parametrize("damage", ["missing", "cut", "none"])
def test_parts_that_do_not_make_it_are_refused(gguf: Path, tmp_path: Path, damage: str) -> None:
    parts = carry.split(tmp_path / "parts", part_bytes=1000)
    if damage == "missing":
        parts[1].unlink()
    elif damage == "cut":
        parts[2].write_bytes(b"x")
    else:
        for part in parts:
            part.unlink()
    target = tmp_path / "model.gguf"
    with pytest.raises(ModelError, match="no parts" if damage == "none" else "missing or damaged"):
        carry.join(tmp_path / "parts", target)
    assert not target.exists()


def test_the_command_says_what_to_type(
    gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["split", str(tmp_path / "parts")]) == 0
    assert "2560 bytes" in capsys.readouterr().out
    assert command.main(["join", str(tmp_path / "parts"), str(tmp_path / "model.gguf")]) == 0
    assert capsys.readouterr().out == f"export MOE_RACE_SMOLLM2={tmp_path / 'model.gguf'}\n"
    assert command.main(["join", str(tmp_path / "nowhere"), str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err.startswith("models: ")
    assert command.main(["show", "tiny-mixtral"]) == 0
    assert "weights: seeded" in capsys.readouterr().out
