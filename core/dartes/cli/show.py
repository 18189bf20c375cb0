"""What `dartes run` prints at its end: accuracy before and after, and where everything is."""

import json
from pathlib import Path
from typing import Any

from dartes.cli.export import export_run, exported_hash
from dartes.cli.words import forgotten_words, sample_words, share_words
from dartes.errors import ConfigurationError, TransientError
from dartes.report.curves import draw_curves
from dartes.state import RunFolder


def require_free(export: Path, last_row_hash: bytes | None) -> None:
    """Raise ConfigurationError, before hours of work, where the model could not be written in the end.

    A model that this run has exported already, at the row where it stands, may be there.
    """
    free = not export.exists() or (export.is_dir() and not any(export.iterdir()))
    ours = last_row_hash is not None and exported_hash(export) == last_row_hash.hex()
    if not free and not ours:
        raise ConfigurationError(
            f"--export {export}: exists and is not empty; name a new folder or remove it"
        )


def results(folder: RunFolder, export: Path | None) -> None:
    """Draw the curves, export the model where asked, print the results."""
    try:
        summary = json.loads(folder.summary.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise TransientError(
            f"{folder.summary} could not be written, because the disk was full; free some space and run again"
        ) from error
    draw_curves(folder.metrics, summary, folder.curves)
    lines = ["", *accuracy_lines(summary), "", cost_line(summary), ""]
    lines += [f"run folder  {folder.path}", f"curves      {folder.curves}"]
    lines.append(f"model       {_model(folder, export, summary['journal_hash'])}")
    lines.append(
        f"journal     {folder.journal}   ({folder.journal.stat().st_size:,} bytes: the fine-tuned model)"
    )
    lines.append(f"check it    dartes verify {folder.path}")
    print("\n".join(lines), flush=True)  # noqa: T201 - this is the command's output


def accuracy_lines(summary: dict[str, Any]) -> list[str]:
    """One line per evaluation set, then one per holdout, with 95 % intervals.

    A set with several samples says what they give together, and the best iteration is named where the last
    one is not it.
    """
    lines = [_set_line(name, entry) for name, entry in summary["evaluations"].items()]
    return [*lines, *(_holdout_line(name, entry) for name, entry in summary.get("holdouts", {}).items())]


def cost_line(summary: dict[str, Any]) -> str:
    """Iterations, time, tokens and what crossed the wire."""
    return (
        f"{summary['iterations']} iterations, {summary['members']} members evaluated, "
        f"{summary['seconds']:.0f} s, {summary['generated_tokens']:,} tokens generated, "
        f"{summary['wire_bytes'] / 1000:,.0f} kB on the wire"
    )


def _model(folder: RunFolder, export: Path | None, journal_hash: str | None) -> str:
    """Where the model is, or how to get it; an older export is never passed off as this one."""
    if export is None:
        return f"dartes export {folder.path} --output MODEL_DIR"
    if export.exists() and any(export.iterdir()):
        if exported_hash(export) != journal_hash:
            return f"{export} holds an older one; dartes export {folder.path} --output NEW_DIR"
    else:
        export_run(folder, export, None, None)
    return f"{export}   (loads with transformers)"


def _set_line(name: str, entry: dict[str, Any]) -> str:
    before, after, best = entry["before"], entry["after"], entry.get("best")
    against_base = entry.get("against_base", False)
    what = "answers better than the base model's " if against_base and after["accuracy"] is not None else ""
    shown = (
        f"{share_words(after)} {what}after {after['iteration']} iterations "
        f"({after['problems']} held-out problems{sample_words(after)})"
    )
    line = f"{name}: {shown}"
    if before is not None and not against_base:  # the base model does not win against itself
        line = f"{name}: {share_words(before)} before, {shown}"
    if best is not None and best["iteration"] != after["iteration"]:
        line += f"; {share_words(best)} at the best iteration, {best['iteration']}"
    return line


def _holdout_line(name: str, entry: dict[str, Any]) -> str:
    line = _set_line(f"{name} (holdout)", entry)
    change = entry["change"]
    return line if change is None else f"{line}; forgotten: {forgotten_words(change)}"
