"""The DART-ES algorithm: difficulty history, weights, replay, batch drawing and coefficients.

Pure functions of (settings, state, results), with NumPy and the project's own random streams; no clock, no
disk, no network, no weights. `docs/algorithm.md` describes every rule and names the function that holds it.
"""

from dartes.difficulty.batch import Batch, Share, draw_batch, eligible_problems, estimated_iterations
from dartes.difficulty.commit import advance
from dartes.difficulty.judging import judge
from dartes.difficulty.membership import MembershipChange
from dartes.difficulty.population import member_seeds, member_signs
from dartes.difficulty.score import Results, Scored, score, sign_flip_share
from dartes.difficulty.settings import AlgorithmSettings, SetSettings, StageSettings, one_stage
from dartes.difficulty.state import DifficultyState

__all__ = [
    "AlgorithmSettings",
    "Batch",
    "DifficultyState",
    "MembershipChange",
    "Results",
    "Scored",
    "SetSettings",
    "Share",
    "StageSettings",
    "advance",
    "draw_batch",
    "eligible_problems",
    "estimated_iterations",
    "judge",
    "member_seeds",
    "member_signs",
    "one_stage",
    "score",
    "sign_flip_share",
]
