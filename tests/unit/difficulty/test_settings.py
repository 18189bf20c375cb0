"""Settings, their bounds, and the members of an iteration."""

from typing import Any

import numpy as np
import pytest

from dartes.difficulty import AlgorithmSettings, member_seeds, member_signs, one_stage
from dartes.errors import ConfigurationError
from dartes.ids import Iteration
from dartes.noise.streams import Purpose, words
from dartes.spec import DartESJob
from dartes.tasks.rules import Fitness, GradingRules

from .runs import K0, settings


def test_the_defaults_are_the_papers() -> None:
    chosen = AlgorithmSettings(stages=one_stage(epochs=40))
    assert (chosen.population_size, chosen.sigma, chosen.learning_rate) == (30, 0.001, 0.0005)
    assert (chosen.batch_size, chosen.replay_ratio) == (200, 0.2)
    assert chosen.stages[0].sets[0].rules == GradingRules(Fitness.PASS, 0.1, against_parent=False)
    assert (chosen.ema_decay, chosen.weight_floor, chosen.weight_exponent) == (0.7, 0.8, 3.0)
    assert (chosen.mastery_threshold, chosen.zero_pass_patience) == (0.5, 2)
    assert (chosen.cooldown_iterations, chosen.max_visits_per_epoch) == (1, 2)
    assert (chosen.antithetic, chosen.reweighting, chosen.replay, chosen.history) == (False, True, True, True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"population_size": 0}, "population_size = 0: must be at least 1"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"sigma": -1.0}, "sigma = -1.0"),
        ({"learning_rate": float("nan")}, "learning_rate = nan"),
        ({"ema_decay": 1.5}, "ema_decay = 1.5: must be between 0 and 1"),
        ({"replay_ratio": -0.1}, "replay_ratio = -0.1"),
        ({"zero_pass_patience": 0}, "zero_pass_patience = 0"),
        ({"seed": 2**64}, "seed = 18446744073709551616: must be at least 0 and below 2"),
        ({"epochs": 1, "iterations": 1}, "set exactly one"),
        ({"iterations": None}, "set exactly one"),
        ({"iterations": -1}, "iterations = -1"),
        ({"antithetic": True, "population_size": 3}, "population_size = 3: must be even"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_name(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        settings(**values)


def test_every_member_has_its_own_seed_in_every_iteration() -> None:
    chosen = settings(population_size=40, seed=9)
    seeds = np.concatenate([member_seeds(chosen, Iteration(k)) for k in range(50)])
    assert seeds.dtype == np.uint64
    assert len(set(seeds.tolist())) == 2000
    assert member_seeds(chosen, K0).tolist() == words(9, Purpose.MEMBER_SEED, 0, 0, 0, 40).tolist()
    assert member_seeds(chosen, K0).tolist() != member_seeds(settings(seed=10), K0).tolist()
    assert member_seeds(chosen, K0).tolist() != member_seeds(chosen, K0, stage=1).tolist()
    assert member_signs(chosen).tolist() == [1.0] * 40


def test_antithetic_members_share_a_seed_with_opposite_signs() -> None:
    chosen = settings(population_size=6, antithetic=True)
    seeds = member_seeds(chosen, K0)
    assert seeds.tolist() == np.repeat(words(0, Purpose.MEMBER_SEED, 0, 0, 0, 3), 2).tolist()
    signs = member_signs(chosen)
    assert signs.dtype == np.float32
    assert signs.tolist() == [1.0, -1.0] * 3


RULES = GradingRules(auxiliary_weight=0.25)


def job(es: dict[str, Any], dart: dict[str, Any]) -> DartESJob:
    return DartESJob.model_validate(
        {
            "apiVersion": "dartes.dev/v1alpha1",
            "kind": "DartESJob",
            "metadata": {"name": "example"},
            "spec": {
                "model": {"source": "builtin://addition"},
                "dataset": {"source": "builtin://addition"},
                "task": {"kind": "addition", "auxiliaryWeight": 0.25},
                "es": es,
                "dart": dart,
            },
        }
    )


def test_a_job_becomes_settings_field_by_field() -> None:
    es = {"populationSize": 6, "sigma": 0.01, "learningRate": 0.02, "batchSize": 12, "seed": 5}
    replay = {"ratio": 0.3, "masteryThreshold": 0.6, "zeroPassPatience": 3}
    dart = {
        "emaDecay": 0.4,
        "weightFloor": 0.7,
        "weightExponent": 2.0,
        "history": False,
        "replay": {**replay, "cooldownIterations": 4, "maxVisitsPerEpoch": 5},
    }
    spec = job({**es, "epochs": 3, "antithetic": True}, dart).spec
    assert AlgorithmSettings.from_spec(spec) == AlgorithmSettings(
        population_size=6,
        sigma=0.01,
        learning_rate=0.02,
        batch_size=12,
        seed=5,
        antithetic=True,
        stages=one_stage(epochs=3, rules=RULES),
        history=False,
        ema_decay=0.4,
        weight_floor=0.7,
        weight_exponent=2.0,
        replay_ratio=0.3,
        mastery_threshold=0.6,
        zero_pass_patience=3,
        cooldown_iterations=4,
        max_visits_per_epoch=5,
    )


def test_a_job_of_defaults_has_the_default_settings() -> None:
    spec = job({"iterations": 7}, {}).spec
    expected = AlgorithmSettings(stages=one_stage(iterations=7, rules=RULES))
    assert AlgorithmSettings.from_spec(spec) == expected


@pytest.mark.parametrize(
    ("dart", "reweighting", "replay"),
    [
        ({"enabled": False}, False, False),
        ({"enabled": False, "reweighting": True, "replay": {"enabled": True}}, False, False),
        ({"reweighting": False}, False, True),
        ({"replay": {"enabled": False}}, True, False),
    ],
)
def test_plain_es_and_the_ablations_are_settings(
    dart: dict[str, Any], reweighting: bool, replay: bool
) -> None:
    chosen = AlgorithmSettings.from_spec(job({"iterations": 1}, dart).spec)
    assert (chosen.reweighting, chosen.replay) == (reweighting, replay)
