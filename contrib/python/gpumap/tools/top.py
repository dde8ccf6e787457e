# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl top: a node as it changes, or once.

    top_facts   what there is: rows, sessions, models, and who waits for whom
    top_json    the same for JSON
    top_page    cells with text that no terminal obeys
    top_panels  all lines of each panel
    top_layout  what is where on the screen
    top_keys    what a key or the mouse does to the view
    top_screen  the terminal
"""

from __future__ import annotations

import locale
import os
import sys

from . import command
from .command import Exit, Failed
from .top_facts import Panel, Reader
from .top_layout import WIDTH_LEAST, lay_out
from .top_panels import View


def columns() -> int:
    """$COLUMNS, or those of the terminal, or 80."""
    text = os.environ.get("COLUMNS", "")
    n = int(text) if text.isdecimal() else 0
    if n == 0:
        try:
            n = os.get_terminal_size(1).columns
        except OSError:
            pass
    return min(max(n or 80, WIDTH_LEAST), 1000)


def is_ascii() -> bool:
    """Is the locale's encoding another one than UTF-8?"""
    return command.is_coerced() or locale.getencoding() != "UTF-8"


def main(words: list[str]) -> int:
    """Show a node on a screen, or print what is there."""
    parser = command.Parser("top", "Show the node on a screen, as it changes.")
    parser.add_argument("--once", action="store_true", help="print it once")
    parser.add_argument(
        "--interval",
        type=command.count,
        default=1,
        metavar="S",
        help="seconds from one look to the next; 1 by default",
    )
    options = parser.parse_args(words)
    map = command.open_map(options)
    if options.json:
        from .top_json import of_facts

        print(command.to_json(of_facts(Reader(map).read(Panel))))
    elif options.once:
        view = View(columns(), 0, is_ascii())
        lay_out(view, Reader(map).read(Panel))
        print(view.page)
    elif os.isatty(0) and os.isatty(1):
        try:
            from .top_screen import Screen
        except ImportError as error:
            raise Failed(
                f"top --once works here, but no screen: {error}", Exit.USAGE
            ) from None
        screen = Screen(map, options.interval, is_ascii())
        screen.show()
        map = screen.reader.map
    else:
        raise Failed(
            "top needs a terminal: --once prints the same, once", Exit.USAGE
        )
    command.warn_of_age(map)
    return Exit.OK
