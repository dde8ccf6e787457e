# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Lines of character cells, each with a style, for gpumapctl top.

No text can do anything to a terminal: a character that controls, or that has no
width, and a byte that is not UTF-8 become "?".  On a page that is ASCII all
other characters do, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from unicodedata import category

from . import text

CHOSEN = 0x80  # with a style: the line that is selected


class Style(IntEnum):
    """What a cell is, for its colour."""

    PLAIN = 0
    DIM = 1
    STRONG = 2
    TITLE = 3
    OURS = 4  # memory of sessions
    OTHERS = 5  # memory of other processes
    PROMISED = 6  # memory that holders do not use yet
    FREE = 7
    GOOD = 8
    WARN = 9
    BAD = 10
    ALARM = 11  # a line that must be seen
    KEY = 12


# Ours, and what stands for them where there is only ASCII.
SIGNS = dict(zip("─·▒▓█▁▂▃▄▅▆▇", "-.=+#..::||#"))
BARS = [
    (Style.OURS, "█", "sessions"),
    (Style.OTHERS, "▓", "others"),
    (Style.PROMISED, "▒", "promised"),
    (Style.FREE, "·", "free"),
]


@dataclass
class Line:
    """Cells.  The right half of a wide character is ""."""

    tag: int | None  # its maker's; None: it cannot be selected
    chars: list[str]
    styles: list[int]


class Page:
    """Lines of one width; text goes to the last one, and is cut at its end."""

    def __init__(self, width: int, is_ascii: bool) -> None:
        self.width = max(width, 1)
        self.is_ascii = is_ascii
        self.lines: list[Line] = []

    def add(self, tag: int | None = None) -> None:
        """Add a blank line."""
        blank = [" "] * self.width
        self.lines.append(Line(tag, blank, [Style.PLAIN] * self.width))

    def safe(self, words: str) -> str:
        """The text, as a terminal may have it."""
        if words.isascii() and words.isprintable():
            return words
        return "".join(c if self._may_show(c) else "?" for c in words)

    def _may_show(self, c: str) -> bool:
        if c.isascii() or self.is_ascii:
            return " " <= c <= "~"
        # Medial vowels and final consonants of Hangul have no width either.
        return (
            c.isprintable()
            and category(c) not in ("Mn", "Me")
            and not "\u1160" <= c <= "\u11ff"
        )

    def put(
        self,
        x: int,
        words: str,
        style: Style = Style.PLAIN,
        end: int | None = None,
    ) -> int:
        """Put text from column x to before end; return the column behind it."""
        line = self.lines[-1]
        end = self.width if end is None else min(end, self.width)
        words = self.safe(words)
        if words.isascii():
            words = words[: max(end - x, 0)]
            line.chars[x : x + len(words)] = words
            line.styles[x : x + len(words)] = [style] * len(words)
            return x + len(words)
        for c in words:
            wide = text.columns(c)
            if x + wide > end:
                break
            line.chars[x : x + wide] = [c] + [""] * (wide - 1)
            line.styles[x : x + wide] = [style] * wide
            x += wide
        return x

    def right(
        self, x: int, end: int, words: str, style: Style = Style.PLAIN
    ) -> None:
        """Likewise, so that it ends before end; as far left as x."""
        start = end - text.columns(self.safe(words))
        self.put(max(start, x), words, style, end)

    def fill(
        self, x: int, end: int, sign: str = " ", style: Style = Style.PLAIN
    ) -> None:
        """Fill with a sign of ours, from column x to before end."""
        line, n = self.lines[-1], min(end, self.width) - x
        if n > 0:
            sign = SIGNS.get(sign, sign) if self.is_ascii else sign
            line.chars[x : x + n] = [sign] * n
            line.styles[x : x + n] = [style] * n

    def copy(self, x: int, line: Line, is_chosen: bool) -> None:
        """Copy a line of another page to column x."""
        to, end = self.lines[-1], x + len(line.chars)
        to.chars[x:end] = line.chars
        mark = CHOSEN if is_chosen else 0
        to.styles[x:end] = [style | mark for style in line.styles]

    def runs(self, y: int) -> Iterator[tuple[int, str, int]]:
        """Column, text and style of each run of cells of one style."""
        line, x = self.lines[y], 0
        for style, run in groupby(
            zip(line.chars, line.styles), key=itemgetter(1)
        ):
            chars = [c for c, _ in run]
            yield x, "".join(chars), style
            x += len(chars)

    def __str__(self) -> str:
        """Its text, without blanks at the ends of lines."""
        return "\n".join(
            "".join(line.chars).rstrip(" ") for line in self.lines
        )
