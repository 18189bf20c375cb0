"""The training problems of a job: by stage and set, under one digest that sees every change."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dartes.data import DatasetError, load_dataset, load_evaluation_set, load_training
from dartes.spec import JobSpec


def spec_of(dataset: dict[str, Any]) -> JobSpec:
    es: dict[str, Any] = {"batchSize": 2} if "stages" in dataset else {"batchSize": 2, "epochs": 1}
    return JobSpec.model_validate(
        {
            "model": {"source": "builtin://addition"},
            "dataset": dataset,
            "task": {"kind": "addition"},
            "es": es,
        }
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, count in (("a", 3), ("b", 5)):
        lines = "".join(f'{{"a": {a}, "b": {count}}}\n' for a in range(count))
        (tmp_path / f"{name}.jsonl").write_text(lines)
    return tmp_path


STAGES = {"stages": [{"source": "a.jsonl", "epochs": 1}, {"source": "b.jsonl", "iterations": 2}]}
MIX = {"mix": [{"source": "a.jsonl"}, {"source": "b.jsonl", "weight": 2.0}]}


def test_a_job_with_one_plain_data_set_keeps_its_digest(files: Path) -> None:
    spec = spec_of({"source": "a.jsonl"})
    training = load_training(spec, files)
    assert training.sizes == ((3,),)
    assert training.digest == load_dataset(spec.dataset, files).digest


@pytest.mark.parametrize(("dataset", "sizes"), [(STAGES, ((3,), (5,))), (MIX, ((3, 5),))])
def test_several_sets_have_the_digest_of_their_places_digests_and_sizes(
    files: Path, dataset: dict[str, Any], sizes: tuple[tuple[int, ...], ...]
) -> None:
    training = load_training(spec_of(dataset), files)
    assert training.sizes == sizes
    text = "dartes-stages-v1\n"
    for stage, sets in enumerate(training.stages):
        for index, one in enumerate(sets):
            text += f"{stage} {index} {one.digest} {len(one.rows)}\n"
    assert training.digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "b.jsonl").write_text('{"a": 1, "b": 1}\n'),
        lambda folder: (folder / "a.jsonl").write_text('{"a": 9, "b": 9}\n'),
    ],
    ids=["second set", "first set"],
)
def test_a_change_in_any_set_changes_the_digest(files: Path, change: Callable[[Path], object]) -> None:
    before = load_training(spec_of(MIX), files).digest
    change(files)
    assert load_training(spec_of(MIX), files).digest != before


def test_stages_and_a_mix_of_the_same_sets_have_different_digests(files: Path) -> None:
    assert load_training(spec_of(STAGES), files).digest != load_training(spec_of(MIX), files).digest


def test_a_set_that_cannot_be_read_is_named_by_its_place(files: Path) -> None:
    (files / "b.jsonl").unlink()
    with pytest.raises(DatasetError, match=r"^spec\.dataset\.mix\[1\]\.source: "):
        load_training(spec_of(MIX), files)
    with pytest.raises(DatasetError, match=r"^spec\.dataset\.stages\[1\]\.source: "):
        load_training(spec_of(STAGES), files)


@pytest.mark.parametrize("kind", ["sets", "holdouts"])
def test_an_evaluation_set_that_cannot_be_read_is_named_by_its_place(files: Path, kind: str) -> None:
    spec = spec_of({"source": "a.jsonl"})
    given = {"sets": [{"name": "b", "dataset": {"source": "b.jsonl"}}]}
    given[kind] = [{"name": "gone", "dataset": {"source": "gone.jsonl"}}]
    spec = spec.model_copy(update={"evaluation": type(spec.evaluation).model_validate(given)})
    with pytest.raises(DatasetError, match=rf"^spec\.evaluation\.{kind}\[gone\]\.dataset\.source: "):
        load_evaluation_set(spec, "gone", files)
