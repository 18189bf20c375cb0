"""Pages of journal rows for workers that catch up. Pure: a function that is passed in fetches the rows."""

from collections.abc import Callable

from dartes.journal import JournalRow
from dartes.v1 import population_pb2 as wire

PAGE_ROWS = 1024
PAGE_BYTES = 4 * 1024 * 1024  # a quarter of the wire's largest message; one row always fits

Fetch = Callable[[int, int], list[tuple[int, bytes, bytes]]]
"""(start, limit) -> (iteration, encoded row, row hash)."""


def updates_page(request: wire.UpdatesRequest, committed: int, fetch: Fetch) -> wire.UpdatesResponse:
    """Rows from `request.from_iteration` on: as many as were asked for, are there and fit a page."""
    response = wire.UpdatesResponse()
    if request.from_iteration >= committed:
        return response
    size = 0
    for _, encoded, digest in fetch(request.from_iteration, min(max(1, request.limit), PAGE_ROWS)):
        size += len(encoded) + len(digest)
        if response.rows and size > PAGE_BYTES:
            break
        row = JournalRow.decode(encoded)
        response.rows.append(
            wire.UpdateRow(
                iteration=row.iteration,
                stage=row.stage,
                seeds=row.seeds.tolist(),
                coefficients=row.coefficients.tolist(),
                row_hash=digest,
            )
        )
    return response
