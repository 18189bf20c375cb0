"""Index types that must not be mixed up: a member is not a problem, and neither is an iteration."""

from typing import NewType

MemberIndex = NewType("MemberIndex", int)
"""Position of a perturbed model in the population, 0..N-1."""

ProblemIndex = NewType("ProblemIndex", int)
"""Row of a training problem in the data set, 0..P-1."""

Iteration = NewType("Iteration", int)
"""Number of an iteration, counted from 0; also the number of updates that precede it."""
