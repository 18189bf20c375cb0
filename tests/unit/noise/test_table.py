"""The shipped normal table is what its script makes, has the stated moments, and is refused when damaged."""

import importlib.util
import math
from pathlib import Path
from statistics import NormalDist
from types import ModuleType

import numpy as np
import pytest
from mpmath import mp

from dartes.errors import ConfigurationError
from dartes.noise.table import TABLE_FILE, normal_table, read_table

SCRIPT = Path(__file__).parents[3] / "scripts" / "make_normal_table.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("make_normal_table", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_script_makes_the_shipped_entries(script: ModuleType) -> None:
    table = normal_table()
    scale = _scale_in_double_precision()
    for index in [*range(32768, 65536, 331), 32769, 65534, 65535]:
        with mp.workdps(40):
            made = script.round_to_float32(script.positive_quantile(index) / scale)
        assert float(table[index]) == made
        assert float(table[65535 - index]) == -made


def test_another_inverse_normal_gives_every_entry() -> None:
    # The standard library's is exact to about 1e-16: enough to round all 32,768 the same way.
    scale = _scale_in_double_precision()
    expected = np.array([q / scale for q in _quantiles()]).astype(np.float32)
    assert np.array_equal(normal_table()[32768:], expected)


def _quantiles() -> list[float]:
    return [NormalDist().inv_cdf((index + 0.5) / 65536) for index in range(32768, 65536)]


def _scale_in_double_precision() -> float:
    quantiles = _quantiles()
    return math.sqrt(math.fsum(q * q for q in quantiles) / len(quantiles))


def test_the_table_is_sign_symmetric_and_strictly_increasing() -> None:
    table = normal_table()
    assert np.array_equal(table, -table[::-1])
    assert (np.diff(table) > 0).all()


def test_the_table_has_unit_variance_and_normal_tails() -> None:
    table = normal_table().astype(np.float64)
    assert table.mean() == 0
    assert abs(np.mean(table**2) - 1) < 1e-9
    assert abs(np.mean(table**4) - 2.99925) < 1e-5
    assert abs(table.max() - 4.32496) < 1e-5


def test_the_shared_table_cannot_be_changed() -> None:
    assert normal_table() is normal_table()
    with pytest.raises(ValueError, match="read-only"):
        normal_table()[0] = 0


@pytest.mark.parametrize("damage", ["one bit", "cut short", "missing"])
def test_a_damaged_table_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    data = bytearray(TABLE_FILE.read_bytes())
    path = tmp_path / "normals-v1.f32"
    if damage == "one bit":
        data[100_000] ^= 1
        path.write_bytes(data)
    elif damage == "cut short":
        path.write_bytes(data[:-4])
    with pytest.raises(ConfigurationError, match=r"normals-v1\.f32.*install `dartes` again"):
        read_table(path)
