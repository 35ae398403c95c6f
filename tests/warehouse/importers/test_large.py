"""100,000 requests with their chunk gaps fit into 1 GB."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.warehouse.importers.samples import vllm_summary
from warehouse.lake import scan

REQUESTS, TOKENS = 100_000, 128

IMPORT = """
from pathlib import Path
from warehouse.importers.importing import import_paths
(outcome,) = import_paths([Path(sys.argv[1])], Path(sys.argv[2]))
# Not ru_maxrss: that begins at the size of the process that started this one.
(most,) = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(outcome.records_in, most)
"""


@pytest.mark.slow
def test_a_hundred_thousand_requests(tmp_path: Path, python: Callable[..., subprocess.Popen[str]]) -> None:
    draw = random.Random(0)
    record = vllm_summary(
        num_prompts=REQUESTS,
        completed=REQUESTS,
        input_lens=[128] * REQUESTS,
        output_lens=[TOKENS] * REQUESTS,
        ttfts=[draw.random() for _ in range(REQUESTS)],
        itls=[[draw.random() for _ in range(TOKENS - 1)] for _ in range(REQUESTS)],
        errors=[""] * REQUESTS,
    )
    path = tmp_path / "run.json"
    path.write_text(json.dumps(record))

    output, errors = python(IMPORT, path, tmp_path / "lake").communicate()

    assert not errors
    records, most_kb = map(int, output.split())
    assert records == REQUESTS + 1
    assert most_kb < 1_000_000
    (rows,) = scan(tmp_path / "lake").files("serving_requests")
    table = pq.read_table(rows, columns=["e2e_ms", "chunk_gaps_ms"])
    assert table.num_rows == REQUESTS
    last = REQUESTS - 1
    expected = record["ttfts"][last] + sum(record["itls"][last])
    assert table["e2e_ms"][last].as_py() == pytest.approx(1000 * expected)
    assert len(table["chunk_gaps_ms"][last]) == TOKENS - 1
