"""Reads problems from CSV files: a header with the columns' names, then one problem per record.

Every value is text, as the file has it. Guessing numbers would make a column of answers ("12", "x + 1") hold
both, or a row depend on others; a task that wants a number reads the text.
"""

import csv
from collections.abc import Iterator

from dartes.data.errors import DatasetError
from dartes.data.json_text import not_utf8, repeated
from dartes.data.lines import LINE_LIMIT, bounded_lines
from dartes.data.parts import Part, Placed


def rows_of_records(part: Part) -> Iterator[Placed]:
    """Every record as a row; a quoted value may go over several lines, the place names the last."""
    csv.field_size_limit(LINE_LIMIT)
    with part.open() as file:
        # `strict` refuses what the format leaves open, such as text after a closing quote.
        reader = csv.reader(
            (_text(line, place) for place, line in bounded_lines(file, part.name)), strict=True
        )
        try:
            header = next(reader, None)
            if header is None:
                return
            _check_header(header, part.name)
            for record in reader:
                place = f"{part.name} line {reader.line_num}"
                if not record:
                    raise DatasetError(f"{place}: empty line; remove it")
                if len(record) != len(header):
                    raise DatasetError(
                        f"{place}: {len(record)} values, and the header has {len(header)} columns; a value "
                        'with a comma in it stands in double quotes ("a, b")'
                    )
                yield place, dict(zip(header, record, strict=True))
        except csv.Error as error:
            raise DatasetError(f"{part.name} line {reader.line_num}: not CSV: {error}") from error


def _check_header(header: list[str], name: str) -> None:
    for column in header:
        if not column.strip():
            raise DatasetError(f"{name} line 1: a column has no name; the first line names every column")
    twice = repeated(header)
    if twice is not None:
        raise DatasetError(f"{name} line 1: column '{twice}' appears twice")


def _text(line: bytes, place: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(error, place) from error
