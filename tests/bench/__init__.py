"""Benchmarks: medians and ratios, printed; nothing is asserted on time."""
