"""What a finished run came out as, in one flat object: the last words of the coordinator's process.

Read from the store, so it is the same whether this process finished the run or found it finished.
"""

from dartes.spec import JobSpec
from dartes.state import RunFolder, RunReader

Value = str | int | float | None


def completion(folder: RunFolder, spec: JobSpec) -> dict[str, Value]:
    """The finished run of a folder; None where a value is not known.

    `evalAccuracy` is the newest accuracy on the job's first evaluation set, between 0 and 1.
    """
    with RunReader.open(folder) as reader:
        count, last = reader.iteration_count(), reader.last_row_hash()
        newest = list(reader.iterations(count - 1)) if count else []
        first = spec.evaluation.sets[0].name if spec.evaluation.sets else None
        accuracies = [e.accuracy for e in reader.evaluations() if e.set_name == first]
        return {
            "iteration": count,
            "totalIterations": count,
            "epoch": reader.last_epoch(),
            "journalHash": None if last is None else last.hex(),
            "weightDigest": reader.meta_text("weight_digest"),
            "trainPassRate": float(newest[-1].passed.mean()) if newest else None,
            "evalAccuracy": accuracies[-1] if accuracies else None,
            "incarnation": int(reader.meta_text("incarnation") or 0),
        }
