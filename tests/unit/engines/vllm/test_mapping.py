"""The map of a model whose loader does what vLLM's do: fuse, slice, pad; and what is refused by name."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch

from dartes.checkpoint import TensorInfo
from dartes.checkpoint.safetensors_file import StoredDtype
from dartes.errors import ConfigurationError
from dartes_worker.engines.vllm import mapping
from dartes_worker.engines.vllm.mapping import locate, served_tensors
from dartes_worker.weights.stretch import Stretch

Tensors = Iterable[tuple[str, torch.Tensor]]
Edit = Callable[[torch.Tensor], torch.Tensor]


def info(name: str, *shape: int) -> TensorInfo:
    return TensorInfo(name, StoredDtype.F32, shape, Path("model.safetensors"), 0)


TRAINED = [info("embed", 301, 64), info("down", 64, 96), info("q", 8, 64), info("k", 4, 64)]


class Model(torch.nn.Module):
    """Rank 1 of 2: a padded vocabulary, the right half of a matrix's columns, two tensors fused into one."""

    def __init__(self, dtype: torch.dtype = torch.float32, edit: Edit = lambda values: values) -> None:
        super().__init__()
        self.embed = self._parameter(320, 64, dtype)
        self.down = self._parameter(64, 48, dtype)
        self.qk = self._parameter(12, 64, dtype)
        self.edit = edit

    @staticmethod
    def _parameter(rows: int, columns: int, dtype: torch.dtype) -> torch.nn.Parameter:
        return torch.nn.Parameter(torch.zeros(rows, columns, dtype=dtype), requires_grad=False)

    def load_weights(self, weights: Tensors) -> None:
        for name, values in weights:
            if name == "embed":
                self.embed[:301] = values
                self.embed[301:] = 0
            elif name == "down":
                self.down.copy_(self.edit(values[:, 48:]))
            elif name == "q":
                self.qk[:8] = values
            else:
                self.qk[8:] = values


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("piece", [2**20, 1000])
def test_fused_sliced_and_padded_tensors_are_found_whatever_the_format(
    dtype: torch.dtype, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "_PIECE", piece)
    assert locate(Model(dtype), TRAINED) == (
        Stretch("down", "down", 48, 0, 48, 64, 96, 48),
        Stretch("embed", "embed", 0, 0, 301 * 64),
        Stretch("q", "qk", 0, 0, 512),
        Stretch("k", "qk", 0, 512, 256),
    )


def test_rows_as_long_as_the_digits_repeat_are_told_apart() -> None:
    """Columns that continue modulo 256 look whole in the lowest digit."""

    class Columns(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(300, 256), requires_grad=False)

        def load_weights(self, weights: Tensors) -> None:
            for _, values in weights:
                self.w.copy_(values[:, 256:])

    assert locate(Columns(), [info("w", 300, 512)]) == (Stretch("w", "w", 256, 0, 256, 300, 512, 256),)


def test_nothing_but_the_trained_elements_is_changed() -> None:
    model = Model()
    table = torch.tensor([-3.0, 0.5, -1.0])
    model.register_buffer("table", table)
    locate(model, TRAINED)
    assert table.tolist() == [-3.0, 0.5, -1.0]
    assert not model.embed[301:].any()


@pytest.mark.parametrize(
    "edit",
    [
        lambda values: values * 0.5,
        lambda values: values * 2,
        lambda values: values + 1,
        lambda values: values + values.flip(0),
        lambda values: values.round(decimals=-1),
        lambda values: values.abs(),
        lambda values: torch.cat([values[:, :47], torch.ones(64, 1)], dim=1),
    ],
    ids=["halved", "doubled", "shifted", "merged", "coarsened", "folded", "filled in part"],
)
def test_values_that_are_no_plain_copies_are_refused_by_name(edit: Edit) -> None:
    with pytest.raises(ConfigurationError, match=r"^down: "):
        locate(Model(edit=edit), TRAINED)


def test_scattered_elements_are_refused_by_name() -> None:
    class Transposing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(96, 64), requires_grad=False)

        def load_weights(self, weights: Tensors) -> None:
            for _, values in weights:
                self.w.copy_(values.T)

    with pytest.raises(ConfigurationError, match="^w: vLLM's loader transposes"):
        locate(Transposing(), [info("w", 64, 96)])


def test_a_parameter_that_no_trained_tensor_reaches_is_named() -> None:
    model = Model()
    model.extra = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    with pytest.raises(ConfigurationError, match="^extra: no trained tensor"):
        locate(model, TRAINED)


def test_a_buffer_of_the_files_that_vllm_keeps_as_a_parameter_is_left_alone() -> None:
    model = Model()
    model.e_score_correction_bias = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    assert {stretch.target for stretch in locate(model, TRAINED)} == {"embed", "down", "qk"}


def test_a_loader_that_fails_is_told_in_our_words() -> None:
    def broken(_: torch.Tensor) -> torch.Tensor:
        raise KeyError("down")

    with pytest.raises(ConfigurationError, match="Model: vLLM can't load the trained tensors a second time"):
        locate(Model(edit=broken), TRAINED)


def test_quantised_and_rearranged_weights_are_refused() -> None:
    class Fp8LinearMethod: ...

    model = Model()
    model.layer = torch.nn.Linear(1, 1)
    setattr(model.layer, "quant_method", Fp8LinearMethod())  # noqa: B010
    with pytest.raises(ConfigurationError, match="^layer: vLLM quantises it"):
        locate(model, TRAINED)
    del model.layer.quant_method
    model.layer.W_UK_T = torch.zeros(1)
    with pytest.raises(ConfigurationError, match="^layer: vLLM multiplies with a rearranged copy"):
        locate(model, TRAINED)


def test_tied_tensors_are_served_once_and_in_place() -> None:
    model = torch.nn.Module()
    model.embed = torch.nn.Parameter(torch.zeros(2, 3))
    model.head = model.embed
    model.register_buffer("gone", torch.zeros(2), persistent=False)
    model.register_buffer("whole", torch.zeros(2, dtype=torch.int64))
    served = served_tensors(model)
    assert {name: flat.shape for name, flat in served.items()} == {"embed": (6,)}
    served["embed"][4] = 1
    assert model.embed[1, 1] == 1


def test_strides_and_shared_memory_are_refused_by_name() -> None:
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(torch.zeros(2, 3).T)
    with pytest.raises(ConfigurationError, match=r"^w: vLLM keeps it with strides"):
        served_tensors(model)
    whole = torch.zeros(8)
    model.w = torch.nn.Parameter(whole)
    model.part = torch.nn.Parameter(whole[4:])
    with pytest.raises(ConfigurationError, match="^part: shares memory with w"):
        served_tensors(model)
