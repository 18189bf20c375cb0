"""Reads problems from Arrow's files: Parquet by row groups, Arrow IPC files and streams by record batches.

Knows these two formats and what a damaged file looks like; what a value becomes is `arrow_values`'.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, repeat
from typing import Any, Final

from dartes.data.arrow_values import SLICE_BYTES, ArrowRows, arrow_module
from dartes.data.errors import DatasetError
from dartes.data.parts import Part, Placed

_FILE_MAGIC: Final = b"ARROW1"
_BUFFER_BYTES: Final = 2**20
"""What is read ahead of each column of a Parquet file that lies near."""

FIRST_ROWS: Final = 8
MOST_ROWS: Final = 64
"""Rows of a Parquet file that are read at a time: so many of a row group at first, so many at most."""

log = logging.getLogger(__name__)


def rows_of_parquet(part: Part) -> Iterator[Placed]:
    """The rows of a Parquet file; of a row group as much is in memory as is being turned."""
    parquet = arrow_module("pyarrow.parquet")
    with part.open() as file:
        with damage_named(part.name):
            # Of a file far away a row group is fetched in few requests, and lies in memory as it is packed.
            near = {"pre_buffer": False, "buffer_size": _BUFFER_BYTES}
            table = parquet.ParquetFile(file, **({} if part.far else near))
            maker = ArrowRows(table.schema_arrow, part.name)
        say_left_out(maker, part.name)
        first = 1
        for number in range(table.num_row_groups):
            place = f"{part.name} row group {number + 1}"
            with damage_named(place):
                batches = table.iter_batches(
                    batch_size=FIRST_ROWS,
                    row_groups=[number],
                    columns=maker.names if maker.left_out else None,
                    use_threads=False,
                )
            widest = 1
            for batch in _guarded(batches, repeat(place)):
                # The file's own figures are of repeated texts written once, and say nothing of what is read.
                widest = max(widest, batch.nbytes // max(1, batch.num_rows))
                table.reader.set_batch_size(rows_of_next_batch(batch.num_rows, widest))
                yield from maker.rows(batch, part.name, first)
                first += batch.num_rows


def rows_of_next_batch(rows: int, widest: int) -> int:
    """How many rows are read after a batch of `rows`, where the widest batch had `widest` bytes a row.

    Twice as many at most, since what comes may be wider than all that came.
    """
    return max(1, min(MOST_ROWS, 2 * rows, SLICE_BYTES // widest))


def rows_of_arrow(part: Part) -> Iterator[Placed]:
    """The rows of an Arrow IPC file or stream; one record batch is open at a time."""
    arrow = arrow_module("pyarrow")
    with part.open() as file:
        is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        file.seek(0)
        with damage_named(part.name):
            reader = arrow.ipc.open_file(file) if is_file else arrow.ipc.open_stream(file)
            maker = ArrowRows(reader.schema, part.name)
        batches = _of_file(reader) if is_file else reader
        say_left_out(maker, part.name)
        first = 1
        places = (f"{part.name} record batch {number}" for number in count(1))
        for batch in _guarded(_validated(iter(batches)), places):
            yield from maker.rows(batch, part.name, first)
            first += batch.num_rows


def say_left_out(maker: ArrowRows, name: str) -> None:
    """Warn about the columns that are not read."""
    if maker.left_out:
        listed = ", ".join(f"{column} ({kind[:60]})" for column, kind in maker.left_out.items())
        listed = (
            listed if listed.isprintable() else ascii(listed)
        )  # names are the file's, and may steer a terminal
        log.warning("%s: columns that are neither text, numbers nor lists are left out: %s", name, listed)


def _of_file(reader: Any) -> Iterator[Any]:
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def _validated(batches: Iterator[Any]) -> Iterator[Any]:
    """Arrow takes offsets and texts as they stand in the file; a damaged one must not be read by them."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _guarded(batches: Iterator[Any], places: Iterator[str]) -> Iterator[Any]:
    for place in places:
        with damage_named(place):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def damage_named(place: str) -> Iterator[None]:
    """Turn what pyarrow says of a damaged file into a `DatasetError` with the place."""
    arrow = arrow_module("pyarrow")
    try:
        yield
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise DatasetError(f"{place}: damaged, or not of its format ({_first_line(error)})") from error
    except OSError as error:
        if error.errno is not None or type(error) is not OSError:
            raise  # of the file system or the network, not of what stands in the file
        raise DatasetError(f"{place}: damaged ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
