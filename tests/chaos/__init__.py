"""Chaos: a seeded random schedule of faults over three jobs, and what must hold all the while.

`schedule`, `pods`, `budgets`, `invariants`, `log_lines` and `report` decide and take values only; `world`,
`observer` and `injections` touch the cluster. `python -m tests.chaos` runs it; `docs/chaos.md` is for people.
"""
