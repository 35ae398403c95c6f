"""Kernel families for Hopper (compute capability 9.0): one for each regime of a call.

    vector   one token: rows of weights straight into registers, no matrix unit, two launches
    stream   up to some hundred tokens: the weights are streamed once, as the first operand of the product
    tiled    more: the tokens are the first operand, in tiles as large as the registers hold

All launch with programmatic dependent launch, so that a kernel's start overlaps the end of the one before
it. int8_w8a16 multiplies on the integer units too: an activation is split into two int8 limbs, see
:mod:`dispatch.kernels.hopper.limbs`. docs/kernels.md has the design of each path and its measurements.
"""
