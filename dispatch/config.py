"""Which tiles a call runs with, and where that choice came from.

A :class:`Problem` is the shape of a call and the device it runs on. :func:`model_config` derives tiles
from both without any table; :mod:`dispatch.tables` has measured ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dispatch.errors import ConfigError
from dispatch.precision import Precision

# Shared memory that one thread block can have, in bytes, by compute capability (CUDA programming guide,
# table of technical specifications). A capability that is missing counts as the smallest.
_SHARED_BYTES = {(8, 0): 166_912, (8, 7): 166_912, (9, 0): 232_448, (10, 0): 232_448, (10, 3): 232_448}
_SMALLEST_SHARED_BYTES = 101_376
_HOPPER = (9, 0)
# Mean rows of an expert up to which a tile height is taken. A 16-row tile up to 12, because loads scatter and
# an expert over 16 rows reads its weights twice; two 64-row tiles pad less than one of 128 up to 96.
_HEIGHTS = ((12, 16), (24, 32), (96, 64))
_TALLEST = 128
# Under two stages nothing overlaps; an int8 product takes steps of at least 32.
_LEAST_STAGES = 2
_LEAST_STEP = 32
# tl.dot takes no smaller block on any axis.
_LEAST_BLOCK = 16
# Interpreted, int8 products are float32 products, exact up to this step: 1024 * 127 * 127 is under 2^24.
_MOST_EXACT_STEP = 1024
# A tile narrower than this leaves Hopper's wgmma unused unless the weights are its first operand.
_WGMMA_ROWS = 64


@dataclass(frozen=True)
class DeviceFacts:
    """What the choice of tiles depends on.

    Attributes:
        name: as torch reports it; 'cpu-interpreter' under Triton's interpreter.
        capability: compute capability; (0, 0) under the interpreter.
        sm_count: streaming multiprocessors.
    """

    name: str
    capability: tuple[int, int]
    sm_count: int

    @property
    def interpreted(self) -> bool:
        """Whether Triton interprets the kernels on the host."""
        return self.capability == (0, 0)

    @property
    def shared_bytes(self) -> int:
        """Shared memory that one thread block can have."""
        return _SHARED_BYTES.get(self.capability, _SMALLEST_SHARED_BYTES)


@dataclass(frozen=True)
class Problem:
    """The shape of a call.

    Attributes:
        tokens: M.
        top_k: k.
        experts: E.
        hidden: H.
        intermediate: I.
        precision: number format.
        device: what it runs on.
    """

    tokens: int
    top_k: int
    experts: int
    hidden: int
    intermediate: int
    precision: Precision
    device: DeviceFacts

    @property
    def slots(self) -> int:
        """Rows that the matrix products see: one for each token and choice."""
        return self.tokens * self.top_k

    @property
    def active_experts(self) -> float:
        """Experts that ``tokens`` uniform draws of ``top_k`` out of ``experts`` touch, in expectation."""
        missed = (1 - min(self.top_k, self.experts) / self.experts) ** self.tokens
        return self.experts * (1 - missed)

    @property
    def rows_per_expert(self) -> float:
        """Mean rows of an expert that has any, under uniform routing."""
        return self.slots / self.active_experts if self.slots else 0.0


@dataclass(frozen=True)
class TileConfig:
    """Tiles of one of the two matrix products.

    Attributes:
        block_m: rows (token slots) of a tile.
        block_n: output channels of a tile.
        block_k: length of one step along the reduction.
        num_warps: warps of a program.
        num_stages: depth of the load pipeline.
        group_m: row tiles that run beside each other before the next channel tile; shares weights in L2.
        swap_ab: weights as the first operand of the product, so that few rows still fill wgmma.
    """

    block_m: int
    block_n: int
    block_k: int
    num_warps: int = 4
    num_stages: int = 3
    group_m: int = 1
    swap_ab: bool = False


@dataclass(frozen=True)
class MoeConfig:
    """Tiles of a call, and where they came from.

    Attributes:
        gate_up: first product, gate and up together; its tile has ``block_n`` channels of each.
        down: second product.
        source: ``model``, ``tuned`` (this token count was measured), ``interpolated`` (a neighbour was), or
            ``interpreter``.
        detail: one phrase about the source, for the log.
        tuned_triton_version: of the table that it came from.
    """

    gate_up: TileConfig
    down: TileConfig
    source: str
    detail: str = ""
    tuned_triton_version: str | None = None

    @property
    def block_m(self) -> int:
        """Row-tile height; both products walk one schedule, so it is the same in both."""
        return self.gate_up.block_m


def model_config(problem: Problem) -> MoeConfig:
    """Tiles for a shape that nobody measured.

    The height of a tile follows the mean rows of an expert: padding costs matrix rate, a second tile of
    an expert reads its weights again. Few rows are a stream of weights, which wants bytes in flight: a
    long step, a deep pipeline, and the weights as first operand. Many rows want large tiles.
    """
    if problem.device.interpreted:
        return _interpreter_config(problem)
    rows = problem.rows_per_expert
    one_byte = problem.precision.int8_weights
    block_m = next((height for most, height in _HEIGHTS if rows <= most), _TALLEST)
    if block_m < _WGMMA_ROWS:
        tile = TileConfig(block_m, 64, 128, 4, 4, swap_ab=True)
        gate_up = down = tile
    elif block_m == _WGMMA_ROWS:
        gate_up = TileConfig(64, 64, 128 if one_byte else 64, 4, 3)
        down = TileConfig(64, 128, 128 if one_byte else 64, 4, 3)
    else:
        # Two accumulators of 128 x 128 float32 are 128 registers a thread over 8 warps: with operands in
        # registers, as mma.sync wants them before Hopper, that spills.
        channels = 128 if problem.device.capability >= _HOPPER else 64
        gate_up = TileConfig(128, channels, 64, 8, 3, group_m=4)
        down = TileConfig(128, 128, 64, 8, 4, group_m=4)
    gate_up, down = (fit(tile, problem, matrices) for tile, matrices in ((gate_up, 2), (down, 1)))
    return MoeConfig(gate_up, down, "model", f"{rows:.1f} rows an expert")


def fit(tile: TileConfig, problem: Problem, matrices: int) -> TileConfig:
    """``tile`` with as many stages, and as long a step, as the device's shared memory holds.

    Args:
        tile: what is wanted.
        problem: the precision says the bytes of an element, the device what there is.
        matrices: weight tiles of a step: 2 for gate and up, 1 for down.
    """
    while shared_bytes(tile, problem.precision, matrices) > problem.device.shared_bytes:
        if tile.num_stages > _LEAST_STAGES:
            tile = replace(tile, num_stages=tile.num_stages - 1)
        elif tile.block_k > _LEAST_STEP:
            tile = replace(tile, block_k=tile.block_k // 2)
        else:
            return tile
    return tile


def check_tiles(config: MoeConfig, problem: Problem) -> None:
    """Refuse tiles that somebody wrote by hand and that cannot run, or not exactly.

    Raises:
        ConfigError: a block is no power of two, or under 16; the products differ in block_m; an interpreted
            int8 product has a step of over 1024, where its sum is no longer exact.
    """
    for name, tile in (("gate_up", config.gate_up), ("down", config.down)):
        blocks = (tile.block_m, tile.block_n, tile.block_k)
        if any(block < _LEAST_BLOCK or block & (block - 1) for block in blocks):
            raise ConfigError(f"config: {name} has blocks {blocks}; each must be a power of two from 16 on.")
        if (
            problem.device.interpreted
            and problem.precision.int8_activations
            and tile.block_k > _MOST_EXACT_STEP
        ):
            raise ConfigError(
                f"config: {name} has block_k {tile.block_k}; interpreted int8 products are exact "
                f"up to {_MOST_EXACT_STEP}."
            )
    if config.gate_up.block_m != config.down.block_m:
        raise ConfigError(
            f"config: gate_up has block_m {config.gate_up.block_m} and down {config.down.block_m}; "
            "both products share one schedule and need one block_m."
        )


def shared_bytes(tile: TileConfig, precision: Precision, matrices: int) -> int:
    """Shared memory of the load pipeline: one row tile and ``matrices`` weight tiles for each stage."""
    row_bytes = tile.block_m * (1 if precision.int8_activations else 2)
    weight_bytes = matrices * tile.block_n * (1 if precision.int8_weights else 2)
    return tile.num_stages * tile.block_k * (row_bytes + weight_bytes)


def _interpreter_config(problem: Problem) -> MoeConfig:
    """Large tiles: the interpreter pays for each operation, hardly for its size."""

    def tile(channels: int, reduction: int) -> TileConfig:
        block_m = min(64, _power_of_2(max(16, int(problem.rows_per_expert))))
        step = min(_MOST_EXACT_STEP, _power_of_2(reduction))
        return TileConfig(block_m, min(1024, _power_of_2(channels)), step)

    return MoeConfig(
        tile(problem.intermediate, problem.hidden), tile(problem.hidden, problem.intermediate), "interpreter"
    )


def _power_of_2(n: int) -> int:
    """The smallest power of two that is at least ``n`` and 16."""
    return max(16, 1 << (n - 1).bit_length())
