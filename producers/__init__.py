"""Producers: run kernels, references and correctness gates, and append raw measurements to the lake."""
