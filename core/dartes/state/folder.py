"""The names of the files in a run folder, in one place."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run. Only `store` (and its backups) is the truth; the rest can be made from it."""

    path: Path

    @property
    def job(self) -> Path:
        """The job as it runs, every default filled in."""
        return self.path / "job.yaml"

    @property
    def lock(self) -> Path:
        """Held by the process that runs this folder."""
        return self.path / "lock"

    @property
    def store(self) -> Path:
        """SQLite: batch and result bits of every iteration, journal rows, evaluations."""
        return self.path / "state.sqlite"

    @property
    def backups(self) -> Path:
        """Verified copies of the store, newest last by name."""
        return self.path / "backups"

    @property
    def damaged(self) -> Path:
        """Stores that failed their check, kept for a post-mortem."""
        return self.path / "damaged"

    @property
    def rewound(self) -> Path:
        """Stores as they were before their run went back to an older iteration."""
        return self.path / "rewound"

    @property
    def journal(self) -> Path:
        """The portable journal: with the base model, it is the fine-tuned model."""
        return self.path / "journal.dartes"

    @property
    def metrics(self) -> Path:
        """One JSON line per iteration."""
        return self.path / "metrics.jsonl"

    @property
    def summary(self) -> Path:
        """What the run achieved and cost."""
        return self.path / "summary.json"

    @property
    def curves(self) -> Path:
        """The picture of pass rate, accuracy and replay buffer."""
        return self.path / "curves.png"

    @property
    def snapshots(self) -> Path:
        """fp32 master weights of some iterations, to shorten catch-up."""
        return self.path / "snapshots"

    @property
    def tls(self) -> Path:
        """Keys and certificates of a local run, one folder per role."""
        return self.path / "tls"

    @property
    def endpoint(self) -> Path:
        """`host:port` of the coordinator, written when it listens."""
        return self.path / "endpoint"

    @property
    def logs(self) -> Path:
        """What each process printed."""
        return self.path / "logs"
