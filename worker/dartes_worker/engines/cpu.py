"""Which kind of CPU this is, as far as arithmetic libraries choose their code by it."""

import platform
import re
from pathlib import Path
from typing import Final

_CHOSEN_BY: Final = re.compile(r"^(avx|amx|fma|f16c|sve|asimd|bf16)")


def cpu_kind(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return machine, vendor and vector instructions, such as "x86_64 GenuineIntel avx avx2 fma"."""
    words = [platform.machine()]
    if cpuinfo.is_file():
        text = cpuinfo.read_text(errors="replace")
        vendor = re.search(r"^(?:vendor_id|CPU implementer)\s*:\s*(\S+)", text, re.MULTILINE)
        flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
        words += [vendor[1]] if vendor else []
        words += sorted(flag for flag in flags[1].split() if _CHOSEN_BY.match(flag)) if flags else []
    return " ".join(words)
