"""Standard library modules that programs use, imported once so that no run has to."""

COMMON = (
    "_strptime", "abc", "array", "ast", "base64", "bisect", "calendar", "cmath", "collections",
    "collections.abc", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum",
    "fractions", "functools", "graphlib", "hashlib", "heapq", "html", "inspect", "io", "itertools", "json",
    "keyword", "locale", "math", "numbers", "operator", "os", "pathlib", "pickle", "pprint", "queue",
    "random", "re", "secrets", "shutil", "stat", "statistics", "string", "struct", "sys", "tempfile",
    "textwrap", "threading", "time", "timeit", "token", "tokenize", "traceback", "types", "typing",
    "unicodedata", "unittest", "uuid", "warnings", "weakref", "zlib",
    "encodings.ascii", "encodings.cp437", "encodings.idna", "encodings.latin_1", "encodings.utf_16",
    "encodings.utf_8_sig",
)  # fmt: skip
