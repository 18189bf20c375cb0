"""The shipped example data are what their script writes, and no held-out sum is trained on."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "examples" / "one-digit-sums"


def test_the_shipped_files_are_what_the_script_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "make_one_digit_sums.py", tmp_path], check=True)
    for split, count in (("train", 312), ("test", 288)):
        made = (tmp_path / f"{split}.jsonl").read_bytes()
        assert made == (SHIPPED / f"{split}.jsonl").read_bytes()
        assert made.count(b"\n") == count


def test_no_held_out_question_is_trained_on() -> None:
    train, test = (
        {json.loads(line)["question"] for line in (SHIPPED / f"{split}.jsonl").read_text().splitlines()}
        for split in ("train", "test")
    )
    assert not train & test
