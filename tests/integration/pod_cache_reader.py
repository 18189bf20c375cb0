"""One of several workers that want the same model of a shared cache; the hub is a folder of files.

`python pod_cache_reader.py CACHE HUB NAME`: prints the folder that it got. While it downloads there is a file
`downloading-NAME` in HUB, and it goes on when there is a file `open`.
"""

import sys
import time
from pathlib import Path

from dartes import logs
from dartes.errors import TransientError
from dartes.pod_cache import from_shared_cache

POLL_SECONDS = 0.01


def main(cache: Path, hub: Path, name: str) -> None:
    """Take the model."""
    logs.set_up(name)
    snapshot = cache / "hub" / "models--org--tiny" / "snapshots" / "c0ffee"

    def fetch(revision: str | None, offline: bool) -> Path:
        if not offline:
            (hub / f"downloading-{name}").touch()
            snapshot.mkdir(parents=True, exist_ok=True)
            while not (hub / "open").exists():
                time.sleep(POLL_SECONDS)
            (snapshot / "model.safetensors").write_text(f"whole, by {name}", encoding="utf-8")
        elif not snapshot.exists():
            raise TransientError(f"{revision} is not there")
        return snapshot

    folder = from_shared_cache(cache, "org/tiny", "main", fetch, lambda _: time.sleep(POLL_SECONDS))
    sys.stdout.write((folder / "model.safetensors").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
