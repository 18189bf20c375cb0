"""DART-ES once more, slowly: the reference that the product is compared with, bit by bit.

Written from the description of the algorithm, with lists and dicts, its own Philox on Python ints and its
own exp in 50 decimal digits. It keeps only what happened in a stage (the pass rates of every visit, a log of
replays) and derives history, streaks, membership, caps and cooldowns from that each time. It imports nothing
of the product and no NumPy.

Stages are dicts: "iterations", "epochs" (one of them None) and "sets", each with "count", "weight",
"by_score", "auxiliary_weight" and "against_parent".
"""

import math
import struct
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
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


def random_word(run_seed: int, purpose: int, step: int, k: int, stage: int = 0, part: int = 0) -> int:
    place = purpose + 256 * (stage + 4096 * part)
    out = philox_4x32_10(run_seed, (k // 2, place, step & LOW32, step >> 32))
    first = 2 * (k % 2)
    return out[first] + (out[first + 1] << 32)


def shuffled(
    things: Sequence[Any], run_seed: int, purpose: int, step: int, stage: int = 0, part: int = 0
) -> list[Any]:
    keyed = [
        (random_word(run_seed, purpose, step, k, stage, part), k, thing) for k, thing in enumerate(things)
    ]
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
    stage: int
    epochs: list[int]
    batch: list[tuple[int, str]]
    eligible: list[int]
    slots: int


class Outcome(NamedTuple):
    passed: list[list[bool]]
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


def shares_of(total: int, weights: Sequence[float]) -> list[int]:
    """Largest remainder: whole parts first, then one each by the size of what is left over."""
    exact = [total * Fraction(w) / sum(map(Fraction, weights)) for w in weights]
    whole = [math.floor(x) for x in exact]
    for _ in range(total - sum(whole)):
        most = max(x - n for x, n in zip(exact, whole, strict=True))
        lucky = next(m for m, (x, n) in enumerate(zip(exact, whole, strict=True)) if x - n == most)
        whole[lucky] += 1
    return whole


class Oracle:
    """One run, iteration by iteration: `draw` and `commit` in turn."""

    def __init__(self, settings: Mapping[str, Any], stages: Sequence[Mapping[str, Any]]) -> None:
        self.s = settings
        self.stages = stages
        self.iteration = 0
        self.begin(0)

    def begin(self, stage: int) -> None:
        self.stage, self.begun = stage, self.iteration
        self.sets = self.stages[stage]["sets"]
        self.owned: list[list[int]] = []  # by set: its problems
        for part in self.sets:
            start = sum(map(len, self.owned))
            self.owned.append(list(range(start, start + part["count"])))
        self.problems = range(sum(map(len, self.owned)))
        self.rates: list[list[float]] = [[] for _ in self.problems]
        self.replay_log: list[tuple[int, int, int]] = []  # (iteration, epoch of its set, problem)
        self.fresh_done: list[list[list[int]]] = [[[]] for _ in self.sets]  # by set and epoch, so far

    def part_of(self, problem: int) -> int:
        return next(m for m, owned in enumerate(self.owned) if problem in owned)

    def epoch_of(self, part: int) -> int:
        """The epoch from which the set gives fresh problems next."""
        done = self.fresh_done[part]
        return len(done) if len(done[-1]) == len(self.owned[part]) else len(done) - 1

    def is_over(self) -> bool:
        stage = self.stages[self.stage]
        if stage["iterations"] is not None:
            return bool(self.iteration - self.begun >= stage["iterations"])
        return all(self.epoch_of(m) >= stage["epochs"] for m in range(len(self.sets)))

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
        if self.is_over():
            if self.stage + 1 == len(self.stages):
                return None
            self.begin(self.stage + 1)
        batch, epochs, all_eligible, all_slots = [], [], [], 0
        sizes = shares_of(s["batch_size"], [part["weight"] for part in self.sets])
        for m, size in enumerate(sizes):
            epoch = self.epoch_of(m)
            done = self.fresh_done[m][epoch] if epoch < len(self.fresh_done[m]) else []
            walk = shuffled(self.owned[m], s["seed"], EPOCH_SHUFFLE, epoch, self.stage, m)
            upcoming = walk[len(done) :]
            window = set(upcoming[:size])
            eligible = [j for j in self.owned[m] if j not in window and self.may_replay(j, epoch)]
            slots = min(round(size * s["replay_ratio"]), size - 1) if s["replay"] else 0
            replays = self.weighted_draw(eligible, min(slots, len(eligible)), m)
            fresh = upcoming[: size - len(replays)]
            batch += [(j, "replay") for j in replays] + [(j, "fresh") for j in fresh]
            epochs.append(epoch)
            all_eligible += eligible
            all_slots += slots
        in_order = shuffled(batch, s["seed"], BATCH_SHUFFLE, k, self.stage)
        return Drawn(self.stage, epochs, in_order, all_eligible, all_slots)

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

    def weighted_draw(self, eligible: list[int], count: int, part: int) -> list[int]:
        kappa = self.s["weight_exponent"]
        left = [(j, max(1, round(exp(-(kappa * self.judged(j))) * 2**32))) for j in eligible]
        drawn: list[int] = []
        next_word = 0
        while len(drawn) < count:
            total = sum(w for _, w in left)
            while True:
                word = random_word(self.s["seed"], REPLAY_DRAW, self.iteration, next_word, self.stage, part)
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

    def passes(
        self,
        problems: Sequence[int],
        graded: Sequence[Sequence[bool]],
        scores: Sequence[Sequence[float]],
        parent: Sequence[float],
    ) -> list[list[bool]]:
        against = [self.sets[self.part_of(j)]["against_parent"] for j in problems]
        return [
            [
                score > level if compared else bool(grade)
                for score, level, compared, grade in zip(mine, parent, against, grades, strict=True)
            ]
            for mine, grades in zip(scores, graded, strict=True)
        ]

    def commit(
        self,
        drawn: Drawn,
        graded: Sequence[Sequence[bool]],
        scores: Sequence[Sequence[float]] | None,
        auxiliary: Sequence[Sequence[float]] | None,
        parent: Sequence[float],
    ) -> Outcome:
        s = self.s
        members, places = range(len(graded)), range(len(drawn.batch))
        problems = [j for j, _ in drawn.batch]
        own = [self.sets[self.part_of(j)] for j in problems]
        numbers = scores if scores is not None else [[float(a) for a in row] for row in graded]
        passed = self.passes(problems, graded, numbers, parent)
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
        r = [[numbers[i][n] if own[n]["by_score"] else float(passed[i][n]) for n in places] for i in members]
        bonus = [self.bonus(auxiliary[i], own) if auxiliary else 0.0 for i in members]
        raw = [mean(r[i]) + bonus[i] for i in members]
        fitness = [mean([weights[place] * r[i][place] for place in places]) + bonus[i] for i in members]
        z = self.z_scores(fitness)

        for j, source in drawn.batch:
            if source == "replay":
                self.replay_log.append((self.iteration, drawn.epochs[self.part_of(j)], j))
        for m, epoch in enumerate(drawn.epochs):
            if epoch == len(self.fresh_done[m]):
                self.fresh_done[m].append([])
            fresh = [j for j, source in drawn.batch if source == "fresh" and j in self.owned[m]]
            self.fresh_done[m][-1] += fresh
        self.iteration += 1
        return Outcome(
            passed=passed,
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

    def bonus(self, auxiliary: Sequence[float], own: Sequence[Mapping[str, Any]]) -> float:
        """Sets with the same weight of the auxiliary score are summed before they are weighted."""
        terms = []
        for weight in sorted({part["auxiliary_weight"] for part in self.sets}):
            mine = [f for f, part in zip(auxiliary, own, strict=True) if part["auxiliary_weight"] == weight]
            terms.append(weight * (math.fsum(mine) / len(auxiliary)))
        return math.fsum(terms)

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
        return [random_word(self.s["seed"], MEMBER_SEED, iteration, i // step, self.stage) for i in members]
