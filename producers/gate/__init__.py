"""The correctness gate: kernels inside a real language model, every next-token decision beside stock's.

    python -m producers.gate                              upcycled SmolLM2, on the GPU or the interpreter
    python -m producers.gate --model deepseek-moe-16b     seeded weights of the full dimensions, on a GPU

The stock model (transformers' own experts, bf16) reads windows of a text and predicts the next token at each
position; so does every configuration, and the two are compared position by position. docs/models.md has the
protocol, checks/policy.toml the thresholds.

    plan.py          the configurations, and what a run is asked for
    coordinator.py   the run: workers, rows to the lake, resuming (imports no torch)
    lane.py          the place of one worker
    recorder.py      the rows
    state.py         what the lake holds of a run
    worker.py        a process with the model: reference, then configurations
    passes.py        windows of token ids, and forward passes over them
    candidates.py    the model of a configuration: implementation, int8, float32, counted kernels
    compare.py       one position: decision, gap, losses, drift
    experts.py       one expert alone beside the stock expert
    summary.py       what is printed
"""
