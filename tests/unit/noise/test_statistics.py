"""The noise behaves like independent standard normals where the algorithm relies on it."""

import math

import numpy as np
import pytest

from dartes.noise import kernel, reference, tensor_id
from dartes.noise.streams import Purpose, words

COUNT = 1 << 20
# A correlation of n independent pairs has the standard deviation 1 / sqrt(n): five of them.
BOUND = 5 / math.sqrt(COUNT)


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean(a.astype(np.float64) * b.astype(np.float64)))


@pytest.mark.parametrize(
    ("seed", "name", "start"),
    [
        (1, "model.layers.1.mlp.up_proj.weight", 0),
        (2, "model.layers.0.mlp.up_proj.weight", 0),
        (1 << 32, "model.layers.0.mlp.up_proj.weight", 0),
        (1, "model.layers.0.mlp.up_proj.weight", 1),
        (1, "model.layers.0.mlp.up_proj.weight", 8),
        (1, "model.layers.0.mlp.up_proj.weight", 4096),
        (1, "model.layers.0.mlp.up_proj.weight", 1 << 35),
    ],
)
def test_tensors_seeds_and_places_are_uncorrelated(seed: int, name: str, start: int) -> None:
    first = reference.normals(1, tensor_id("model.layers.0.mlp.up_proj.weight"), 0, COUNT)
    other = reference.normals(seed, tensor_id(name), start, COUNT)
    assert abs(correlation(first, other)) < BOUND


def test_the_noise_has_the_moments_of_a_standard_normal() -> None:
    drawn = reference.normals(7, tensor_id("lm_head.weight"), 0, COUNT).astype(np.float64)
    # Five standard deviations of the estimates: sqrt(1/n), sqrt(2/n), sqrt(15/n), sqrt(96/n).
    assert abs(drawn.mean()) < BOUND
    assert abs((drawn**2).mean() - 1) < BOUND * math.sqrt(2)
    assert abs((drawn**3).mean()) < BOUND * math.sqrt(15)
    assert abs((drawn**4).mean() - 2.99925) < BOUND * math.sqrt(96)


def test_every_table_entry_is_drawn_equally_often() -> None:
    drawn = reference.table_indices(3, 4, 0, 16 * 65536)
    counts = np.bincount(drawn, minlength=65536)
    chi_square = float(((counts - 16) ** 2 / 16).sum())
    # 65,535 degrees of freedom: standard deviation sqrt(2 * 65535) = 362; five of them.
    assert abs(chi_square - 65535) < 5 * 362


def test_random_rewards_walk_as_far_as_independent_steps() -> None:
    # ||theta_T - theta_0||^2 = alpha^2 T d / N for coefficients alpha / N * z with mean 0 and deviation 1
    # over the population; a lost update would pull the ratio below 1, drift would push it above.
    iterations, members, size, alpha = 30, 30, 40_000, 5e-4
    generator = np.random.default_rng(12)
    rows = []
    for iteration in range(iterations):
        fitness = generator.random(members)
        z = (fitness - fitness.mean()) / (fitness.std() + 1e-8)
        seeds = words(99, Purpose.MEMBER_SEED, 0, iteration, 0, members)
        rows.append((seeds, (alpha / members * z).astype(np.float32)))
    origin = (generator.standard_normal(size) * 0.02).astype(np.float32)
    master = origin.copy()
    kernel.apply_updates(master, tensor_id("lm_head.weight"), 0, rows)
    moved = float(np.sum((master.astype(np.float64) - origin.astype(np.float64)) ** 2))
    assert moved / (alpha**2 * iterations * size / members) == pytest.approx(1.0, abs=0.02)
