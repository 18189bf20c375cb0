"""Check, without a network, that requirements.lock still satisfies pyproject.toml and names no registry.

It compares names and versions only; whether a newer set exists is for `make lock UPGRADE=1` to say.

    python scripts/check_lock.py
"""

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def problems(project: dict[str, object], lock: str) -> list[str]:
    """Return what is wrong, one line each.

    ``project`` is the table [project] of pyproject.toml with string lists `dependencies` and
    `optional-dependencies`; ``lock`` the text of requirements.lock.
    """
    pins = {canonicalize_name(name): version for name, version in PIN.findall(lock)}
    groups = {"dependencies": project["dependencies"], **dict(project["optional-dependencies"])}  # type: ignore[call-overload]
    found = [
        f"requirements.lock:{number}: names an address; a lock file holds packages, versions and hashes only"
        for number, line in enumerate(lock.splitlines(), 1)
        if "://" in line or line.startswith("-")
    ]
    for group, texts in groups.items():
        for text in texts:
            wanted = Requirement(text)
            version = pins.get(canonicalize_name(wanted.name))
            if version is None:
                found.append(f"pyproject.toml [{group}]: {text} is not in requirements.lock; run `make lock`")
            elif version not in wanted.specifier:
                found.append(f"pyproject.toml [{group}]: {text}, but {version} is locked; run `make lock`")
    return found


def main() -> int:
    """Print the problems; exit code 1 where there are any."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = problems(project, (ROOT / "requirements.lock").read_text(encoding="utf-8"))
    print("\n".join(found) or "requirements.lock satisfies pyproject.toml")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
