"""Problem sources: built-in problem sets and local JSON files, with one digest that both sides can compare.

Knows rows and where they come from; nothing of tasks, prompts or training.
"""

from dartes.data.dataset import Dataset, DatasetDescription, load_dataset
from dartes.data.errors import DatasetError
from dartes.data.training import Training, load_evaluation_set, load_training

__all__ = [
    "Dataset",
    "DatasetDescription",
    "DatasetError",
    "Training",
    "load_dataset",
    "load_evaluation_set",
    "load_training",
]
