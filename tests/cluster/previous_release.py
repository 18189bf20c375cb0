"""The release before this one, as tests of upgrades install it: its images on the nodes, and its chart.

What it has otherwise than the present one is made up in testcluster/previous.py; the chart is the present one
with that release's version and, where asked for, a definition that lacks what came later.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from dartes import __version__
from testcluster.images import ensure_previous
from testcluster.paths import Paths
from testcluster.previous import VERSION

from .held import HeldCluster, NotHereError, OwnCluster, own
from .release import CHART

LATER_FIELD = "ttlSecondsAfterFinished"
LATER_COLUMN = "Message"
"""A field of spec and a column that the older definition does not have."""

_LATER = (rf"^ +{LATER_FIELD}: \{{.*\}}\n", rf"^ +- \{{name: {LATER_COLUMN}, .*\}}\n")


def load_previous_images(cluster: HeldCluster) -> Mapping[str, str]:
    """Build the older release's images, load them on every node and return their names by target."""
    if not isinstance(cluster, OwnCluster):
        raise NotHereError("images of another release")
    built = ensure_previous(Paths.from_environment())
    own("load-image", *map(str, built.archives), seconds=300.0)
    return built.names


def previous_chart(folder: Path, *, older_definition: bool = False) -> Path:
    """Write the older release's chart into a folder and return where it is."""
    chart = folder / "dartes"
    shutil.copytree(CHART, chart)
    description = chart / "Chart.yaml"
    description.write_text(_replaced(description.read_text(), re.escape(__version__), VERSION, times=2))
    if older_definition:
        definition = chart / "files" / "dartesjobs.dartes.dev.yaml"
        text = definition.read_text()
        for later in _LATER:
            text = _replaced(text, later, "", times=1)
        definition.write_text(text)
    return chart


def _replaced(text: str, pattern: str, new: str, times: int) -> str:
    changed, found = re.subn(pattern, new, text, flags=re.MULTILINE)
    assert found == times, f"{pattern} is there {found} times, not {times}"
    return changed
