"""A finished or running folder told again from its bits: what `dartes journal` and `dartes verify` share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dartes.cli.folder import require_run
from dartes.data import load_training
from dartes.difficulty import AlgorithmSettings, DifficultyState
from dartes.errors import ConfigurationError
from dartes.journal import JournalHeader
from dartes.spec import JobSpec, load_job
from dartes.state import RunFolder, RunReader
from dartes.state.history import Decision, recompute


@dataclass
class Retold:
    """An open store and what its job says of the run."""

    reader: RunReader
    spec: JobSpec
    settings: AlgorithmSettings
    header: JournalHeader
    problem_counts: tuple[tuple[int, ...], ...]
    """Training problems by stage and set."""
    data_digest: str

    def new_state(self) -> DifficultyState:
        """The state before the first iteration, for `decisions`."""
        return DifficultyState(self.problem_counts)

    def decisions(self, state: DifficultyState) -> Iterator[Decision]:
        """Recompute every iteration in order, moving `state` (a new one) along; raises DivergenceError."""
        return recompute(self.settings, state, self.reader.iterations(), self.header.hash())


@contextmanager
def retold(folder: RunFolder) -> Iterator[Retold]:
    """Open a run for retelling.

    Raises
    ------
    ConfigurationError
        No run, no committed iteration yet, or its data set can't be read.
    DamagedStoreError
        The store can't be read as what it was.
    """
    require_run(folder)
    job = load_job(folder.job)
    data = load_training(job.job.spec, job.base_dir)
    with RunReader.open(folder) as reader:
        header = reader.meta("journal_header")
        if header is None:
            raise ConfigurationError(f"{folder.path}: nothing is committed yet")
        yield Retold(
            reader=reader,
            spec=job.job.spec,
            settings=AlgorithmSettings.from_spec(job.job.spec),
            header=JournalHeader.decode(header),
            problem_counts=data.sizes,
            data_digest=data.digest,
        )
