"""What becomes of a test whose cluster lacks something: it is skipped with the reason, or fails."""

from typing import NoReturn

import pytest

from .provider import REQUIRE_VARIABLE, is_required


def lacking(reason: str) -> NoReturn:
    """Skip with the reason; fail where a cluster is required, as in CI, which has one that lacks nothing."""
    if is_required():
        pytest.fail(f"{reason} ({REQUIRE_VARIABLE}=1 makes this a failure)", pytrace=False)
    pytest.skip(reason)
