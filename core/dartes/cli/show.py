"""What `dartes run` prints at its end: accuracy before and after, and where everything is."""

import json
from pathlib import Path
from typing import Any

from dartes.cli.export import export_run
from dartes.report.curves import draw_curves
from dartes.state import RunFolder


def results(folder: RunFolder, export: Path | None) -> None:
    """Draw the curves, export the model where asked, print the results."""
    summary = json.loads(folder.summary.read_text(encoding="utf-8"))
    draw_curves(folder.metrics, summary, folder.curves)
    lines = ["", *accuracy_lines(summary), "", cost_line(summary), ""]
    lines += [f"run folder  {folder.path}", f"curves      {folder.curves}"]
    if export is not None:
        if not export.exists():
            export_run(folder, export, None, None)
        lines.append(f"model       {export}   (loads with transformers)")
    else:
        lines.append(f"model       dartes export {folder.path} --output MODEL_DIR")
    lines.append(
        f"journal     {folder.journal}   ({folder.journal.stat().st_size:,} bytes: the fine-tuned model)"
    )
    lines.append(f"check it    dartes verify {folder.path}")
    print("\n".join(lines), flush=True)  # noqa: T201 - this is the command's output


def accuracy_lines(summary: dict[str, Any]) -> list[str]:
    """One line per evaluation set, with 95 % intervals."""
    lines = []
    for name, entry in summary["evaluations"].items():
        before, after = entry["before"], entry["after"]
        if before is None:
            continue
        lines.append(
            f"{name}: {_share(before)} before, {_share(after)} after {after['iteration']} iterations "
            f"({after['problems']} held-out problems)"
        )
    return lines


def cost_line(summary: dict[str, Any]) -> str:
    """Iterations, time, tokens and what crossed the wire."""
    return (
        f"{summary['iterations']} iterations, {summary['members']} members evaluated, "
        f"{summary['seconds']:.0f} s, {summary['generated_tokens']:,} tokens generated, "
        f"{summary['wire_bytes'] / 1000:,.0f} kB on the wire"
    )


def _share(point: dict[str, Any]) -> str:
    low, high = point["interval95"]
    return f"{100 * point['accuracy']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
