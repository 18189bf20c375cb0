"""Measured comparisons; each script prints a table and writes `bench/results/NAME.json`."""
