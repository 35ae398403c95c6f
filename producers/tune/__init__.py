"""`python -m producers.tune`: find configurations for contestants that have some to choose from.

command   the options, and one tuning run from start to end
session   the workers' side of it: who tries what, in which order, with which share of the time
search    what is tried for one shape and token count, and which is best; no processes, no files
record    rows of table ``tuning``, and what an interrupted run already has
worker    a contestant's process: checks and times one configuration
kernels   the Triton kernels of a call, written down instead of compiled
compiler  compiles them beforehand, on several cores
"""
