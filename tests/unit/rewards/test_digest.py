"""The digest of what grades: functions and models that differ are told apart, wherever they lie."""

import shutil
from pathlib import Path

from dartes.rewards.digest import combined_reward_digest, model_digest
from dartes.spec import TaskSpec


def instruction(folder: str) -> TaskSpec:
    return TaskSpec.model_validate({"kind": "instruction", "options": {"rewardModel": folder}})


def made(folder: Path, weights: bytes = b"weights") -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_a_job_without_rewards_of_its_own_has_no_digest(tmp_path: Path) -> None:
    service = TaskSpec.model_validate({"kind": "instruction", "options": {"rewardService": "http://h/s"}})
    assert combined_reward_digest([TaskSpec(kind="addition"), service], tmp_path) is None


def test_models_are_compared_by_what_they_hold_not_by_where_they_are(tmp_path: Path) -> None:
    made(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "moved")
    made(tmp_path / "other", b"other weights")
    one, moved, other = (
        combined_reward_digest([instruction(name)], tmp_path) for name in ("one", "moved", "other")
    )
    assert one == moved is not None
    assert one != other


def test_files_that_nothing_is_loaded_from_do_not_count(tmp_path: Path) -> None:
    folder = made(tmp_path / "one")
    before = model_digest(folder)
    (folder / "README.md").write_text("words")
    assert model_digest(folder) == before
    (folder / "tokenizer.json").write_text("{}")
    assert model_digest(folder) != before


def test_functions_and_models_count_together(tmp_path: Path) -> None:
    made(tmp_path / "one")
    (tmp_path / "reward.py").write_text("def reward(completions, **_): return [0.0] * len(completions)")
    function = TaskSpec.model_validate(
        {"kind": "python", "prompt": "{a}", "python": {"function": "reward:reward"}}
    )
    alone = combined_reward_digest([function], tmp_path)
    both = combined_reward_digest([function, instruction("one")], tmp_path)
    assert len({alone, both, None}) == 3
