"""Writes `examples/one-digit-sums`: every sum of two digits in six wordings, 48 pairs held out, 52 to train.

The pairs and the order of the questions follow from a SHA-256 of their text, so the files are the same on
every machine. `python scripts/make_one_digit_sums.py FOLDER`.
"""

import hashlib
import json
import sys
from pathlib import Path

WORDINGS = (
    "{a} + {b} =",
    "{a} plus {b} =",
    "What is {a} + {b}?",
    "Add {a} and {b}.",
    "What is the sum of {a} and {b}?",
    "How much is {a} plus {b}?",
)
HELD_OUT_PAIRS = 48


def questions() -> dict[str, list[dict[str, str | int]]]:
    """The rows of each split; no pair of numbers is in both."""
    pairs = sorted(
        ((a, b) for a in range(10) for b in range(10)), key=lambda pair: _key("{}+{}".format(*pair))
    )
    splits = {"test": pairs[:HELD_OUT_PAIRS], "train": pairs[HELD_OUT_PAIRS:]}
    return {
        split: sorted(
            ({"question": w.format(a=a, b=b), "answer": a + b} for a, b in part for w in WORDINGS),
            key=lambda row: _key(str(row["question"])),
        )
        for split, part in splits.items()
    }


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def main() -> None:
    """Write both files."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in questions().items():
        lines = [json.dumps(row) + "\n" for row in rows]
        (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
