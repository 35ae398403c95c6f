"""`python -m producers.decode`: tokens a second at concurrency 1, inside a language model.

One process holds the model. The stock model decodes first and gives the reference tokens; every other
configuration is then given those tokens step by step, through the very path that is timed, and what decides
otherwise beyond the policy is refused. What is left is timed: configurations in shuffled order, repeat after
repeat, each decoding greedily on its own.

    plan      the configurations, and what a run is asked for
    decoders  how one step runs: transformers eagerly, captured in a CUDA graph, or fused
    variants  the models that the configurations decode with (bfloat16, int8)
    traffic   bytes of weights that one step must read
    check     decisions beside the reference's
    clock     the times of the steps of a repeat
    session   the order of all that
    recorder  rows to the lake
    summary   what is printed at the end
"""
