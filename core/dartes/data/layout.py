"""Decides which files of a folder are a split: one file, numbered shards, a folder of files, or a saved set.

Works on names alone, so that a local folder and a bucket are read alike; it opens nothing.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dartes.data.errors import DatasetError
from dartes.data.parts import SUFFIXES, suffix_of

DEPTH: Final = 3
"""How many names deep a file may lie: data/train/part.parquet."""

DATASET_DICT: Final = "dataset_dict.json"
STATE: Final = "state.json"
"""What `datasets.save_to_disk` writes: the names of the splits, and of the files of one."""

_DATA_FOLDER: Final = "data/"
_SHARD: Final = re.compile(r"(?P<split>.+)-(?P<index>[0-9]{5})-of-(?P<count>[0-9]{5})(-[0-9a-f]+)?")


@dataclass(frozen=True, slots=True)
class _File:
    """A file that can be read. `group` is the split, and how its files are named."""

    name: str
    split: str
    group: str
    shard: tuple[int, int] | None = None


def files_of_split(
    names: Iterable[str], split: str, folder: str, read: Callable[[str], bytes]
) -> tuple[str, ...]:
    """The files that hold `split`, in the order they are read.

    Parameters
    ----------
    names
        Every file in the folder, relative to it, at most `DEPTH` names deep, with `/`.
    split
        As the job names it.
    folder
        Path or address, for messages.
    read
        Reads one of the files whole, for the small files of a saved data set.

    Raises
    ------
    DatasetError
        No such split (names those there are), a split that is there twice, a shard that is missing.
    """
    there = sorted(names)
    if DATASET_DICT in there:
        splits = _strings(_parse(read(DATASET_DICT), f"{folder}/{DATASET_DICT}"), "splits")
        if splits is None:
            raise DatasetError(f"{folder}/{DATASET_DICT}: damaged; it has no list of splits")
        if split not in splits:
            raise _unknown_split(split, splits, folder)
        return _saved(f"{split}/", read, folder)
    if STATE in there:
        return _saved("", read, folder)
    files = [file for file in map(_file, there) if file is not None]
    chosen = [file for file in files if file.split == split]
    if not chosen:
        raise _unknown_split(split, sorted({file.split for file in files}), folder)
    groups = sorted({file.group for file in chosen})
    if len(groups) > 1:
        raise DatasetError(
            f"dataset.source: {folder} has the split '{split}' more than once ({', '.join(groups)}); "
            "name the file or folder to read"
        )
    _refuse_missing_shards(chosen, folder)
    return tuple(file.name for file in chosen)


def _file(name: str) -> _File | None:
    suffix = suffix_of(name)
    inner = name.removeprefix(_DATA_FOLDER).removesuffix(suffix or "")
    *folders, stem = inner.split("/")
    if suffix is None or len(folders) > 1 or not all(map(_is_visible, [*folders, stem])):
        return None
    start = name[: len(name) - len(suffix) - len(inner)]
    found = _SHARD.fullmatch(stem)
    shard = (int(found["index"]), int(found["count"])) if found else None
    if folders:
        return _File(name, folders[0], f"{start}{folders[0]}/*{suffix}", shard)
    if found and shard:
        split = found["split"]
        return _File(name, split, f"{start}{split}-*-of-{found['count']}{suffix}", shard)
    return _File(name, stem, name)


def _is_visible(name: str) -> bool:
    return name[:1] not in {"", ".", "_"}


def _refuse_missing_shards(files: Sequence[_File], folder: str) -> None:
    shards = [file.shard for file in files if file.shard is not None]
    for count in {count for _, count in shards}:
        missing = set(range(count)) - {index for index, of in shards if of == count}
        if missing:
            raise DatasetError(
                f"{folder}: of {files[0].group} the file with number {min(missing):05d} is missing "
                f"({len(shards)} of {count} are there)"
            )


def _unknown_split(split: str, there: Sequence[str], folder: str) -> DatasetError:
    if there:
        listed = ", ".join(there[:20]) + (", ..." if len(there) > 20 else "")
        return DatasetError(f"dataset.split: {folder} has no split '{split}' (there are: {listed})")
    return DatasetError(
        f"dataset.source: {folder} has no problems in it; a folder holds {split} as one file "
        f"({split}.jsonl; also {', '.join(SUFFIXES[1:])}), as {split}-00000-of-00002.parquet and so on, "
        f"or as the files of a folder {split}/"
    )


def _saved(prefix: str, read: Callable[[str], bytes], folder: str) -> tuple[str, ...]:
    place = f"{folder}/{prefix}{STATE}"
    state = _parse(read(f"{prefix}{STATE}"), place)
    files = state.get("_data_files") if isinstance(state, dict) else None
    if not isinstance(files, list) or not files:
        raise DatasetError(f"{place}: damaged; it names no data files")
    result = []
    for entry in files:
        name = entry.get("filename") if isinstance(entry, dict) else None
        if not isinstance(name, str) or "/" in name or suffix_of(name) != ".arrow":
            raise DatasetError(f"{place}: damaged; {name!r} is no name of a data file")
        result.append(prefix + name)
    return tuple(result)


def _parse(content: bytes, place: str) -> object:
    try:
        value: object = json.loads(content)
    except ValueError as error:
        raise DatasetError(f"{place}: damaged; not JSON ({error})") from error
    return value


def _strings(document: object, key: str) -> list[str] | None:
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None
