"""The DART-ES algorithm: difficulty history, weights, replay, batch drawing and coefficients.

Pure functions of (settings, state, results), with NumPy and the project's own random streams; no clock, no
disk, no network, no weights. `docs/algorithm.md` describes every rule and names the function that holds it.
"""

from dartes.difficulty.batch import Batch, draw_batch, eligible_problems, estimated_iterations
from dartes.difficulty.commit import advance
from dartes.difficulty.membership import MembershipChange
from dartes.difficulty.population import member_seeds, member_signs
from dartes.difficulty.score import Results, Scored, score, sign_flip_share
from dartes.difficulty.settings import AlgorithmSettings
from dartes.difficulty.state import DifficultyState

__all__ = [
    "AlgorithmSettings",
    "Batch",
    "DifficultyState",
    "MembershipChange",
    "Results",
    "Scored",
    "advance",
    "draw_batch",
    "eligible_problems",
    "estimated_iterations",
    "member_seeds",
    "member_signs",
    "score",
    "sign_flip_share",
]
