"""Tables that ``python -m producers.tune`` wrote for the engines, in their own formats.

``vllm/PRECISION/*.json`` and ``sglang/configs/triton_X_Y_Z/*.json``: a person who runs vLLM points
``VLLM_TUNED_CONFIG_FOLDER`` at the first, one who runs SGLang ``SGLANG_MOE_CONFIG_DIR`` at ``sglang``.
"""

from __future__ import annotations

from pathlib import Path

from producers.failures import Failure
from producers.workloads import Cell


class Tables:
    """The folder of an engine's tuned files.

    Args:
        engine: name of the folder in this package.
        folder: another folder, or None.
    """

    def __init__(self, engine: str, folder: str | None) -> None:
        self.folder = Path(__file__).parent / engine if folder is None else Path(folder)

    def find(self, name: Path, cell: Cell) -> Path:
        """The file called ``name``.

        Raises:
            Failure: ``not-installed``, nobody tuned this shape on this device.
        """
        path = self.folder / name
        if not path.is_file():
            detail = (
                f"no tuned file {name.name} for {cell.workload} in {cell.precision}: "
                "run python -m producers.tune on this device"
            )
            raise Failure("not-installed", detail)
        return path
