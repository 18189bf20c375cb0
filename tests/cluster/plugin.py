"""`kubectl dartes` as a person calls it: through kubectl, with this project's plugin on its path."""

import os
import stat
import subprocess
import sys
from pathlib import Path

from .held import HeldCluster


class Plugin:
    """kubectl with this plugin on its path, aimed at a cluster; a `kubeconfig` makes it another user."""

    def __init__(self, cluster: HeldCluster, folder: Path, kubeconfig: Path | None = None) -> None:
        folder.mkdir(exist_ok=True)
        program = folder / "kubectl-dartes"
        program.write_text(
            f"#!{sys.executable}\nimport sys\nfrom dartes.cli.kube.main import main\nsys.exit(main())\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        kubectl, *target = cluster.kubectl_command
        self._command = [kubectl, "dartes"]
        self._cluster = target if kubeconfig is None else ["--kubeconfig", str(kubeconfig)]
        self._path = os.pathsep.join([str(folder), str(Path(kubectl).parent), os.environ["PATH"]])

    def __call__(self, *words: str, code: int = 0, seconds: float = 60.0) -> str:
        """Run it; returns what it printed. Fails on another exit code."""
        done = subprocess.run(
            [*self._command, *words, *self._cluster],
            env={**os.environ, "PATH": self._path},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == code, f"{done.returncode}: {done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout if code == 0 else done.stderr
