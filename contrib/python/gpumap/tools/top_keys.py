# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""What a key or the mouse does to the view of gpumapctl top.

A key is a character, or a word: "up", "down", "page up", "page down", "home",
"end", "back tab", "backspace", "escape", "enter"; "" is one that does nothing.
"""

from __future__ import annotations

from enum import Enum, auto

from .top_facts import Facts, Panel
from .top_panels import SORTS, View

FILTER_MOST = 44  # characters


class Deed(Enum):
    """What the caller is to do."""

    DRAW = auto()  # the view may have changed
    QUIT = auto()
    DRAIN = auto()  # or undrain, view.row


def press(view: View, facts: Facts, key: str) -> Deed:
    """Obey a key."""
    view.message = ""
    if view.asks:
        view.asks = False
        return Deed.DRAIN if key in ("y", "Y") else Deed.DRAW
    if view.is_typing:
        type_key(view, key)
    elif view.is_help and key != "q":
        view.is_help = False
    elif key in ("q", "Q", "\x03"):
        return Deed.QUIT
    elif not moves(view, key):
        choose(view, facts, key)
    return Deed.DRAW


def choose(view: View, facts: Facts, key: str) -> None:
    """Change what is shown, and how."""
    match key:
        case "h" | "?":
            view.is_help = True
        case "\t":
            focus(view, (view.focus + 1) % len(Panel))
        case "back tab":
            focus(view, (view.focus - 1) % len(Panel))
        case "s":
            view.sort = (view.sort + 1) % len(SORTS)
        case "S":
            view.sort = (view.sort - 1) % len(SORTS)
        case "/":
            view.is_typing = True
        case "escape":
            view.filter = ""
        case "t":
            view.is_flat = not view.is_flat
        case " ":
            view.is_paused = not view.is_paused
        case "d":
            focus(view, Panel.ROWS)
            view.asks = view.row < len(facts.rows)


def focus(view: View, panel: int) -> None:
    """Go to a panel."""
    view.focus = Panel(panel)
    if view.focus != Panel.ROWS:
        view.tab = view.focus


def type_key(view: View, key: str) -> None:
    """Type a filter."""
    if key == "backspace":
        view.filter = view.filter[:-1]
    elif key == "escape":
        view.filter = ""
    elif len(key) == 1 and key.isprintable():
        view.filter = (view.filter + key)[:FILTER_MOST]
    view.is_typing = key not in ("enter", "escape")


# ---- the selected line ------------------------------------------------------


def go(view: View, panel: Panel, to: int, is_up: bool) -> None:
    """Go to the line that can be selected at to, or next in a direction.

    Where there is none, in the other one.
    """
    place = view.places[panel]
    tags = {i: line.tag for i, line in enumerate(place.page.lines)}
    below = [i for i, tag in tags.items() if tag is not None and i >= to]
    above = [i for i, tag in tags.items() if tag is not None and i <= to]
    above.reverse()
    found = above + below if is_up else below + above
    if found:
        place.at = found[0]
        if panel == Panel.ROWS:
            view.row = tags[place.at] or 0


def move(view: View, panel: Panel, lines: int) -> None:
    """Go so many lines down, or up."""
    go(view, panel, view.places[panel].at + lines, lines < 0)


def moves(view: View, key: str) -> bool:
    """Move, if it is a key for that."""
    place = view.places[view.focus]
    page = max(place.height - 1, 1)
    lines: dict[str, int] = {
        "up": -1,
        "k": -1,
        "down": 1,
        "j": 1,
        "page up": -page,
        "page down": page,
        "home": -place.at,
        "end": len(place.page.lines),
    }
    if key in lines:
        move(view, view.focus, lines[key])
    return key in lines


# ---- the mouse --------------------------------------------------------------


def panel_at(view: View, x: int, y: int) -> Panel | None:
    """The panel whose lines are at a cell of the screen."""
    if view.asks or view.is_help:
        return None
    for panel, p in view.places.items():
        across, down = x - p.x, y - p.y
        if p.is_shown and 0 <= across < p.page.width and 0 <= down < p.height:
            return panel
    return None


def click(view: View, x: int, y: int) -> None:
    """Select the line at a cell of the screen."""
    panel = panel_at(view, x, y)
    if panel is not None:
        focus(view, panel)
        place = view.places[panel]
        go(view, panel, place.first + y - place.y, True)


def wheel(view: View, x: int, y: int, lines: int) -> None:
    """Move by lines of a wheel at a cell of the screen."""
    panel = panel_at(view, x, y)
    if panel is not None:
        move(view, panel, lines)
