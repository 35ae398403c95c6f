"""Figures and tables of others."""

from __future__ import annotations

from warehouse.schema.columns import CELL, FLAG, INT, REAL, TEXT, Table

TABLES: dict[str, Table] = {
    "points": Table(
        "Figures that were not measured here: imported from a tool's file, or published in a text.",
        {
            "import_id": TEXT,  # of imports
            "row": INT,  # place in the source
            "evidence": TEXT,  # imported, published
            "contestant": TEXT,
            "house": TEXT,
            "version": TEXT,  # of the contestant; figures of two versions never make one; NULL unknown
            **CELL,
            "benchmark": TEXT,  # what the figures are of; no mean is over two of them
            "cell_key": TEXT,  # everything of the source that makes two figures comparable, canonical JSON
            "metric": TEXT,  # time_us, ratio_best_dispatch_over_vllm, tflops ...
            "value": REAL,
            "value_p20": REAL,  # quantiles of the repetitions behind the value, where the source has them
            "value_p80": REAL,
            "lower_is_better": FLAG,
            "device": TEXT,
            "conditions_json": TEXT,
            "status": TEXT,  # unverified, refused
            "reason": TEXT,  # why a value is NULL or refused
        },
        identity=("import_id", "row"),
        required=("evidence", "contestant", "metric", "status"),
    ),
    "tuned_configs": Table(
        "One entry of a tuned fused-MoE table of vLLM or SGLang: the launch parameters for one number of tokens.",
        {
            "import_id": TEXT,  # of imports
            "row": INT,  # place in the source: of two keys equally near, the loaders take the one that stands first
            "source": TEXT,  # name of the file, which is the key that a loader looks up
            "loader": TEXT,  # vllm, sglang: whose spelling the name is; NULL where both spell it so
            "device": TEXT,  # underscores of the name as spaces: 'NVIDIA H200'
            "experts": INT,  # E of the name: on one rank
            "n": INT,  # N of the name: intermediate size on one rank (SGLang's int4 in uint8: half of it)
            "dtype": TEXT,  # fp8_w8a8, int8_w8a16 ...; NULL: that of the activations
            "block_shape": TEXT,  # of block quantisation: '128,128'
            "per_channel_quant": FLAG,
            "down": FLAG,  # tuned for the second product alone
            "tuned_triton_version": TEXT,  # of the file, else of its folder; NULL unknown
            "tokens": INT,  # M
            "block_size_m": INT,
            "block_size_n": INT,
            "block_size_k": INT,
            "group_size_m": INT,
            "num_warps": INT,
            "num_stages": INT,
            "config_json": TEXT,  # the whole entry, with the parameters that have no column
            "metadata_json": TEXT,  # what stands beside the entries in the file
        },
        identity=("import_id", "row"),
        required=("source", "experts", "n", "device", "tokens", "config_json"),
    ),
}
