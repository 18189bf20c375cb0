"""DART-ES once more, slowly: the reference that the product is compared with, bit by bit.

Written from the description of the algorithm, with lists and dicts, its own Philox on Python ints and its
own exp in 50 decimal digits. It keeps only what happened (the pass rates of every visit, a log of replays)
and derives history, streaks, membership, caps and cooldowns from that each time. It imports nothing of the
product and no NumPy.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

MEMBER_SEED, EPOCH_SHUFFLE, REPLAY_DRAW, BATCH_SHUFFLE = 1, 2, 3, 4
LOW32 = 2**32 - 1


@lru_cache(maxsize=1 << 18)
def philox_4x32_10(key: int, counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    k0, k1 = key & LOW32, key >> 32
    c0, c1, c2, c3 = counter
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & LOW32, (a >> 32) ^ c3 ^ k1, a & LOW32
        k0, k1 = (k0 + 0x9E3779B9) & LOW32, (k1 + 0xBB67AE85) & LOW32
    return c0, c1, c2, c3


def random_word(run_seed: int, purpose: int, step: int, k: int) -> int:
    out = philox_4x32_10(run_seed, (k // 2, purpose, step & LOW32, step >> 32))
    first = 2 * (k % 2)
    return out[first] + (out[first + 1] << 32)


def shuffled(things: Sequence[Any], run_seed: int, purpose: int, step: int) -> list[Any]:
    keyed = [(random_word(run_seed, purpose, step, k), k, thing) for k, thing in enumerate(things)]
    return [thing for _, _, thing in sorted(keyed)]


@lru_cache(maxsize=1 << 16)
def exp(x: float) -> float:
    return float(Context(prec=50).exp(Decimal(x)))


def to_float32(x: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", x))[0])


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


class Standing(NamedTuple):
    """Where a problem stands after its visits."""

    pbar: float | None
    zeros: int
    inside: bool
    change: str


class Drawn(NamedTuple):
    epoch: int
    batch: list[tuple[int, str]]
    eligible: list[int]
    slots: int


class Outcome(NamedTuple):
    rates: list[float]
    before: list[float | None]
    after: list[float | None]
    weights: list[float]
    fitness: list[float]
    raw: list[float]
    z: list[float]
    coefficients: list[float]
    changes: list[str]
    buffer: list[int]


class Oracle:
    """One run, iteration by iteration: `draw` and `commit` in turn."""

    def __init__(self, settings: Mapping[str, Any], problem_count: int) -> None:
        self.s = settings
        self.problems = range(problem_count)
        self.rates: list[list[float]] = [[] for _ in self.problems]
        self.replay_log: list[tuple[int, int, int]] = []  # (iteration, epoch, problem)
        self.fresh_done: list[list[int]] = [[]]  # per epoch: its fresh problems so far
        self.iteration = 0

    def standing(self, problem: int) -> Standing:
        pbar, zeros, inside, change = None, 0, False, "Unchanged"
        for p in self.rates[problem]:
            beta = self.s["ema_decay"]
            pbar = p if pbar is None else beta * pbar + (1 - beta) * p
            zeros = zeros + 1 if p == 0 else 0
            was_inside = inside
            judged = pbar if self.s["history"] else p
            change = "Unchanged"
            if not self.s["replay"]:
                continue
            if judged >= self.s["mastery_threshold"]:
                inside = False
                change = "Mastered" if was_inside else "Unchanged"
            elif p == 0 and zeros >= self.s["zero_pass_patience"]:
                inside = False
                change = "ZeroPass" if was_inside else "Unchanged"
            elif p > 0:
                inside = True
                change = "Unchanged" if was_inside else "Admitted"
        return Standing(pbar, zeros, inside, change)

    def judged(self, problem: int) -> float:
        if not self.s["history"]:
            return self.rates[problem][-1]
        pbar = self.standing(problem).pbar
        assert pbar is not None
        return pbar

    def draw(self) -> Drawn | None:
        s, k = self.s, self.iteration
        if s["iterations"] is not None and k >= s["iterations"]:
            return None
        epoch = len(self.fresh_done) - 1
        done = self.fresh_done[-1]
        if len(done) == len(self.problems):
            epoch, done = epoch + 1, []
        if s["epochs"] is not None and epoch >= s["epochs"]:
            return None
        walk = shuffled(self.problems, s["seed"], EPOCH_SHUFFLE, epoch)
        upcoming = walk[len(done) :]
        window = set(upcoming[: s["batch_size"]])
        eligible = [j for j in self.problems if j not in window and self.may_replay(j, epoch)]

        slots = 0
        if s["replay"]:
            slots = min(round(s["batch_size"] * s["replay_ratio"]), s["batch_size"] - 1)
        replays = self.weighted_draw(eligible, min(slots, len(eligible)))
        fresh = upcoming[: s["batch_size"] - len(replays)]
        batch = [(j, "replay") for j in replays] + [(j, "fresh") for j in fresh]
        return Drawn(epoch, shuffled(batch, s["seed"], BATCH_SHUFFLE, k), eligible, slots)

    def may_replay(self, problem: int, epoch: int) -> bool:
        s = self.s
        if not self.standing(problem).inside:
            return False
        mine = [(iteration, e) for iteration, e, j in self.replay_log if j == problem]
        if sum(e == epoch for _, e in mine) >= s["max_visits_per_epoch"]:
            return False
        if mine and self.iteration - mine[-1][0] <= s["cooldown_iterations"]:
            return False
        return bool(self.judged(problem) < s["mastery_threshold"])

    def weighted_draw(self, eligible: list[int], count: int) -> list[int]:
        kappa = self.s["weight_exponent"]
        left = [(j, max(1, round(exp(-(kappa * self.judged(j))) * 2**32))) for j in eligible]
        drawn: list[int] = []
        next_word = 0
        while len(drawn) < count:
            total = sum(w for _, w in left)
            while True:
                word = random_word(self.s["seed"], REPLAY_DRAW, self.iteration, next_word)
                next_word += 1
                if word < 2**64 // total * total:
                    break
            rest = word % total
            for place, (j, w) in enumerate(left):  # noqa: B007
                if rest < w:
                    break
                rest -= w
            drawn.append(left.pop(place)[0])
        return drawn

    def commit(
        self,
        drawn: Drawn,
        passed: Sequence[Sequence[bool]],
        scores: Sequence[Sequence[float]] | None,
        auxiliary: Sequence[Sequence[float]] | None,
    ) -> Outcome:
        s = self.s
        members, places = range(len(passed)), range(len(drawn.batch))
        problems = [j for j, _ in drawn.batch]
        before = [self.standing(j).pbar for j in problems]
        rates = [sum(passed[i][place] for i in members) / len(members) for place in places]
        for j, p in zip(problems, rates, strict=True):
            self.rates[j].append(p)
        standings = [self.standing(j) for j in problems]

        weights = [1.0 for _ in places]
        if s["reweighting"]:
            weights = [
                to_float32(s["weight_floor"] + exp(-(s["weight_exponent"] * self.judged(j))))
                for j in problems
            ]
        r = scores if scores is not None else [[float(a) for a in row] for row in passed]
        bonus = (
            [s["auxiliary_weight"] * mean(row) for row in auxiliary] if auxiliary else [0.0] * len(members)
        )
        raw = [mean(r[i]) + bonus[i] for i in members]
        fitness = [mean([weights[place] * r[i][place] for place in places]) + bonus[i] for i in members]
        z = self.z_scores(fitness)

        for j, source in drawn.batch:
            if source == "replay":
                self.replay_log.append((self.iteration, drawn.epoch, j))
        if drawn.epoch == len(self.fresh_done):
            self.fresh_done.append([])
        self.fresh_done[-1] += [j for j, source in drawn.batch if source == "fresh"]
        self.iteration += 1
        return Outcome(
            rates=rates,
            before=before,
            after=[standing.pbar for standing in standings],
            weights=weights,
            fitness=fitness,
            raw=raw,
            z=z,
            coefficients=[to_float32(s["learning_rate"] / len(members) * z_i) for z_i in z],
            changes=[standing.change for standing in standings],
            buffer=[j for j in self.problems if self.standing(j).inside],
        )

    @staticmethod
    def z_scores(fitness: Sequence[float]) -> list[float]:
        if max(fitness) == min(fitness):
            return [0.0 for _ in fitness]
        middle = mean(fitness)
        std = math.sqrt(mean([(f - middle) * (f - middle) for f in fitness]))
        return [(f - middle) / (std + 1e-8) for f in fitness]

    def seeds(self, iteration: int) -> list[int]:
        members = range(self.s["population_size"])
        step = 2 if self.s["antithetic"] else 1
        return [random_word(self.s["seed"], MEMBER_SEED, iteration, i // step) for i in members]
