# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Numbers and facts as text, the same in each command."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from unicodedata import east_asian_width

from ..enums import Known
from ..facts import Device

BAR = 40  # columns of the picture of a device's memory
UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]


def size(bytes: int) -> str:
    """ "1.5 GiB", "512 B"."""
    value, unit = float(bytes), 0
    while value >= 1024 and unit + 1 < len(UNITS):
        value /= 1024
        unit += 1
    digits = 0 if unit == 0 or value >= 100 else 1
    return f"{value:.{digits}f} {UNITS[unit]}"


def pci(device: Device) -> str | None:
    """ "0000:17:00.0", or None where it is not known."""
    if not device.known & Known.PCI:
        return None
    bus = device.pci_bus
    return (
        f"{device.pci_domain:04x}:{bus >> 8 & 0xff:02x}"
        f":{bus >> 3 & 0x1f:02x}.{bus & 7:x}"
    )


def ranges(numbers: Iterable[int]) -> list[str]:
    """ ["0-15", "20"] of numbers in rising order."""
    runs = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    found = []
    for _, run in runs:
        members = [number for _, number in run]
        first, last = members[0], members[-1]
        found.append(f"{first}" if first == last else f"{first}-{last}")
    return found


def release(number: int) -> str:
    """A version, "0.2.0" of 200."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def plural(n: int, noun: str) -> str:
    """ "1 row", "2 rows"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def columns(text: str) -> int:
    """How many columns of a monospace font the text takes."""
    return sum(1 + (east_asian_width(c) in "WF") for c in text)


def cut(text: str, most: int) -> str:
    """The text, or its beginning with "..." where it has more columns."""
    if columns(text) <= most:
        return text
    while columns(text) > most - 3:
        text = text[:-1]
    return text + "..."


def bar(used: int, promised: int, total: int) -> str:
    """Memory as "[###==.....]": used, promised, free."""
    end = int(used / (total or 1) * BAR + 0.5)
    taken = int((used + promised) / (total or 1) * BAR + 0.5)
    return f"[{'#' * end}{'=' * (taken - end)}{'.' * (BAR - taken)}]"


def printable(text: str) -> str:
    """The text with "?" for each character that controls or is none."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "?" for c in text)
