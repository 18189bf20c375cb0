"""`curves.png`: pass rate, held-out accuracy and replay buffer over iterations."""

import json
from pathlib import Path
from typing import Any


def draw_curves(metrics: Path, summary: dict[str, Any], output: Path) -> None:
    """Draw the curves of a run from its metrics file and summary; overwrites `output`."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    steps = [line["iteration"] + 1 for line in lines]
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(7.5, 6.5), sharex=True, height_ratios=[2, 1], layout="constrained"
    )
    top.plot(
        steps, [line["pass_rate"] for line in lines], color="#8aa4c0", label="training pass rate (members)"
    )
    colours = ("#c0392b", "#1f7a4d", "#7d3c98", "#b9770e")
    sets, holdouts = summary["evaluations"], summary.get("holdouts", {})
    for position, (name, entry) in enumerate({**sets, **holdouts}.items()):
        # A set without a base model to win over has no accuracy to draw.
        points = [point for point in entry["all"] if point["accuracy"] is not None]
        if not points:
            continue
        at = [p["iteration"] for p in points]
        values = [p["accuracy"] for p in points]
        spread = [
            [max(0.0, v - p["interval95"][0]) for v, p in zip(values, points, strict=True)],
            [max(0.0, p["interval95"][1] - v) for v, p in zip(values, points, strict=True)],
        ]
        colour = colours[position % len(colours)]
        top.errorbar(
            at,
            values,
            yerr=spread,
            marker="o",
            capsize=3,
            color=colour,
            linestyle="--" if name in holdouts else "-",
            label=f"{name} ({'holdout, ' if name in holdouts else ''}95 % interval)",
        )
    top.set_ylabel("share passed")
    top.set_ylim(-0.02, 1.02)
    top.grid(alpha=0.3)
    top.legend(loc="lower right")
    top.set_title(f"{summary['name']}: {summary['iterations']} iterations")
    bottom.plot(
        steps, [line["replay_buffer_size"] for line in lines], color="#555555", label="in replay buffer"
    )
    bottom.plot(steps, [line["replayed"] for line in lines], color="#e08a1e", label="replayed in the batch")
    bottom.set_ylabel("problems")
    bottom.set_xlabel("iteration")
    bottom.xaxis.get_major_locator().set_params(integer=True)
    bottom.grid(alpha=0.3)
    bottom.legend(loc="upper left")
    figure.savefig(output, dpi=130)
    plt.close(figure)
