# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""What is where on the screen of gpumapctl top."""

from __future__ import annotations

import time

from ..enums import State
from . import text
from .text import plural
from .top_facts import SECOND, Facts, Panel
from .top_page import BARS, Page, Style
from .top_panels import (
    SORTS,
    Place,
    View,
    age,
    put_detail,
    put_headings,
    put_models,
    put_rows,
    put_sessions,
    put_waits,
)

WIDTH_LEAST, HEIGHT_LEAST = 60, 16
# From so many columns on the lower panels lie beside each other; from so many
# lines for them on, below each other.
WIDE, STACKED = 140, 15
LEGEND = 46  # columns
PAUSED = " PAUSED "

PUT = {
    Panel.ROWS: put_rows,
    Panel.SESSIONS: put_sessions,
    Panel.MODELS: put_models,
    Panel.WAITS: put_waits,
}
LOWER = {
    Panel.SESSIONS: "sessions and reservations",
    Panel.MODELS: "models",
    Panel.WAITS: "waits",
}
KEYS = (
    "q quit, h help, Tab panel, s sort, / filter, t tree, d drain, space pause"
)
HELP = [
    ("arrows j k PgUp PgDn Home End", "move; so does the wheel"),
    ("Tab, Shift-Tab", "go to another panel; so does a click"),
    ("s, S", "sort rows by the next figure, the last"),
    ("/", "only lines with a text, until Escape"),
    ("t", "by NUMA node and user, or flat"),
    ("d", "drain the selected row, or undrain; asks"),
    ("space", "stop, and go on"),
    ("r, Ctrl-L", "read and draw again"),
    ("q, Ctrl-C", "quit"),
    ("h, ?", "this help; any key ends it"),
]


def panels_of(view: View) -> set[Panel]:
    """The panels that it shows, for Reader.read()."""
    shown = {panel for panel, place in view.places.items() if place.is_shown}
    if view.asks:  # says what a drain ends
        shown |= {Panel.SESSIONS, Panel.MODELS}
    return shown | {Panel.ROWS}


def lay_out(view: View, facts: Facts) -> None:
    """Lay the page out: view.page and view.places."""
    page = view.page = Page(view.width, view.is_ascii)
    is_low = 0 < view.height < HEIGHT_LEAST
    if is_low or view.height and view.width < WIDTH_LEAST:
        least = f"top needs {WIDTH_LEAST}x{HEIGHT_LEAST},"
        words = ["too small:", least, f"this is {view.width}x{view.height}"]
        for one in (words + [""] * view.height)[: view.height]:
            page.add()
            page.put(0, one)
        return
    put_header(view, facts)
    if facts.is_gone:
        put_alarm(view, facts)
    if view.is_help and view.height:
        put_help(view)
        put_footer(view, facts)
        return
    build(view, facts)
    y, detail = len(page.lines), 0
    if view.height:
        detail, end = place_some(view, y), view.height - 1
    else:
        end = place_all(view, y)
    for place in view.places.values():
        if place.is_shown:
            scroll(place)
    rows = view.places[Panel.ROWS]
    for y in range(y, end):
        put_line(view, facts, y)
        line = y - rows.y - rows.height
        if 0 <= line < detail:
            put_detail(page, view, facts, line, detail)
    if view.height:
        put_footer(view, facts)


def build(view: View, facts: Facts) -> None:
    """Write all lines of each panel."""
    is_wide = view.width >= WIDE and view.height > 0
    middle = view.width // 2
    for panel, put in PUT.items():
        x, width = 0, view.width
        if is_wide and panel == Panel.SESSIONS:
            width = middle - 1
        elif is_wide and panel != Panel.ROWS:
            x, width = middle, view.width - middle
        place = view.places[panel]
        place.is_shown, place.x = False, x
        place.page = Page(width, view.is_ascii)
        put(place.page, view, facts)
    # The selected row keeps its device where the order changes.
    rows = view.places[Panel.ROWS]
    tags = [line.tag for line in rows.page.lines]
    shown = [tag for tag in tags if tag is not None]
    if shown and view.row not in shown:
        view.row = shown[0]
    rows.at = tags.index(view.row) if shown else 0


# ---- places -----------------------------------------------------------------


def show(view: View, panel: Panel, y: int, height: int) -> None:
    """Give a panel its lines."""
    place = view.places[panel]
    place.is_shown, place.y, place.height = True, y, max(height, 0)


def place_all(view: View, y: int) -> int:
    """Show all of everything, below each other; return the last line's end."""
    for panel, place in view.places.items():
        y += 2 if panel == Panel.ROWS else 1
        height = len(place.page.lines)
        show(view, panel, y, height)
        y += height
    return y


def place_some(view: View, y: int) -> int:
    """Show what fits, from line y on; return the lines of the detail."""
    body = view.height - y - 1
    detail = 9 if body >= 60 else 6 if body >= 32 else 3
    rest = body - 2 - detail
    n = {panel: len(place.page.lines) for panel, place in view.places.items()}
    lower = max(4, *(n[panel] + 1 for panel in LOWER))
    if view.width >= WIDE:  # two of them below each other
        lower = max(lower, n[Panel.MODELS] + n[Panel.WAITS] + 2)
    rows = min(n[Panel.ROWS], rest - min(lower, rest * 2 // 5))
    show(view, Panel.ROWS, y + 2, rows)
    y += 2 + rows + detail
    height = rest - rows
    waits, models = max(n[Panel.WAITS], 2), max(n[Panel.MODELS], 2)
    if view.width >= WIDE:
        waits = min(waits, (height - 2) // 3)
        show(view, Panel.SESSIONS, y + 1, height - 1)
        show(view, Panel.MODELS, y + 1, height - 2 - waits)
        show(view, Panel.WAITS, y + height - waits, waits)
    elif height >= STACKED:
        waits = min(waits, (height - 3) // 4)
        models = min(models, (height - 3) * 2 // 5)
        show(view, Panel.SESSIONS, y + 1, height - 3 - waits - models)
        y += height - 2 - waits - models
        show(view, Panel.MODELS, y + 1, models)
        show(view, Panel.WAITS, y + models + 2, waits)
    else:
        show(view, view.tab, y + 1, height - 1)
    return detail


def scroll(place: Place) -> None:
    """Have the selected line among those that are shown."""
    lines, height = place.page.lines, place.height
    place.at = max(min(place.at, len(lines) - 1), 0)
    first = max(min(place.first, place.at), place.at - height + 1)
    # With its heading.
    if first == place.at > 0 and lines[first - 1].tag is None and height > 1:
        first -= 1
    place.first = max(min(first, len(lines) - height), 0)


def put_line(view: View, facts: Facts, y: int) -> None:
    """Put what the panels have on a line of the screen."""
    page = view.page
    page.add()
    for panel, place in view.places.items():
        lines, line = place.page.lines, place.first + y - place.y
        if not place.is_shown:
            continue
        if panel == Panel.ROWS and y == place.y - 2:
            put_rows_title(view)
        elif panel == Panel.ROWS and y == place.y - 1:
            put_headings(page, view, facts)
        elif y == place.y - 1:
            put_title(view, facts, panel)
        elif 0 <= y - place.y < place.height and line < len(lines):
            is_at = view.height > 0 and line == place.at
            can_be = lines[line].tag is not None
            is_chosen = is_at and can_be and panel == view.focus
            page.copy(place.x, lines[line], is_chosen)


# ---- titles -----------------------------------------------------------------


def put_rows_title(view: View) -> None:
    """Put the title of the rows, with the legend of their bars."""
    page, end = view.page, view.width - LEGEND
    page.fill(0, view.width, "─", Style.DIM)
    page.fill(1, 2)
    has_focus = view.focus == Panel.ROWS
    x = page.put(2, "rows", Style.KEY if has_focus else Style.TITLE, end)
    x = page.put(x, SORTS[view.sort][0], Style.PLAIN, end)
    if view.filter:
        x = page.put(x, f" with {view.filter}", Style.WARN, end)
    page.fill(x, x + 1)
    page.fill(end, view.width)
    x = end + 1
    for style, sign, what in BARS:
        page.fill(x, x + 2, sign, style)
        x = page.put(x + 3, what, Style.DIM) + 2


def put_title(view: View, facts: Facts, panel: Panel) -> None:
    """Put a lower panel's title; or all, where only one is shown."""
    place, page = view.places[panel], view.page
    end, x = place.x + place.page.width, place.x + 2
    shown = [one for one in LOWER if view.places[one].is_shown]
    page.fill(place.x, end, "─", Style.DIM)
    page.fill(x - 1, x)
    for one in LOWER if len(shown) == 1 else [panel]:
        style = Style.TITLE if one == panel else Style.DIM
        style = Style.KEY if one == view.focus else style
        x = page.put(x, LOWER[one], style, end)
        x = page.put(x, count_of(facts, one), Style.PLAIN, end)
        page.fill(x, x + 2)
        x += 2
    page.fill(x - 1, end, "─", Style.DIM)


def count_of(facts: Facts, panel: Panel) -> str:
    """How many there are of what a lower panel shows; "": not known."""
    lists = {
        Panel.SESSIONS: (facts.sessions, len(facts.holders)),
        Panel.MODELS: (facts.shares, len(facts.maps)),
        Panel.WAITS: (facts.waits, 0),
    }
    asked, more = lists[panel]
    return "" if asked is None else f" {len(asked) + more}"


# ---- other lines ------------------------------------------------------------


def clock(seconds: float) -> str:
    """ "08:12:03", of the local time."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def put_header(view: View, facts: Facts) -> None:
    """Put the first line."""
    page, health = view.page, facts.health
    clock_x = view.width - 10
    end = clock_x - len(PAUSED) * view.is_paused
    state = health.state.name
    if health.stale and health.state != State.RETIRED:
        state = "GONE"
    page.add()
    x = page.put(1, facts.instance, Style.TITLE)
    x = page.put(x + 2, f"gpumapd {text.release(health.agent_version)}")
    style = Style.BAD if facts.is_gone else Style.GOOD
    x = page.put(x + 1, state, style, end)
    if facts.up_s and not facts.is_gone:
        x = page.put(x, f" for {age(facts.up_s * SECOND)}")
    x = page.put(x, f", start {health.epoch}", Style.DIM)
    x = page.put(x + 2, plural(len(facts.rows), "row"))
    died = sum(row.device.restarts for row in facts.rows)
    if died:
        x = page.put(x + 2, f"{plural(died, 'worker')} died", Style.WARN)
    page.fill(end, clock_x + 1)
    if view.is_paused:
        page.put(end, PAUSED, Style.ALARM)
    page.right(clock_x, view.width - 1, clock(facts.time_s))


def put_alarm(view: View, facts: Facts) -> None:
    """Say that the agent is gone."""
    page, since = view.page, facts.time_s - facts.health.age_ns // SECOND
    page.add()
    page.fill(0, view.width, " ", Style.ALARM)
    page.put(
        1,
        f"No gpumapd since {clock(since)} ({age(facts.health.age_ns)}), facts"
        " are old: run gpumapctl doctor, systemctl status gpumapd",
        Style.ALARM,
    )


def put_footer(view: View, facts: Facts) -> None:
    """Put the last line: a question, the filter, a message, or the keys."""
    page, x = view.page, 1
    page.add()
    if view.asks:
        page.fill(0, view.width, " ", Style.ALARM)
        page.put(x, question(view.row, facts), Style.ALARM)
    elif view.is_typing:
        x = page.put(x, "filter: ", Style.KEY)
        x = page.put(x, view.filter, Style.STRONG)
        page.put(x, " ", Style.ALARM)
    elif view.message:
        page.put(x, view.message, Style.WARN)
    else:
        for one in KEYS.split(", "):
            key, what = one.split()
            x = page.put(page.put(x, key, Style.KEY) + 1, what) + 2


def question(row: int, facts: Facts) -> str:
    """Ask whether to drain a row, or undrain it."""
    if facts.is_drained(row):
        return f"Take row {row} into service again?  y or n"
    ends = f"Drain row {row}?  y or n: ends its jobs and memory, "
    if facts.sessions is None or facts.shares is None:
        return ends + "and shares there"
    sessions = sum(row in one.info.rows for one in facts.sessions)
    shares = sum(row in one.info.rows for one in facts.shares)
    return ends + f"{plural(sessions, 'session')}, {plural(shares, 'share')}"


def put_help(view: View) -> None:
    """Put what each key does."""
    page = view.page
    page.add()
    for keys, what in HELP:
        page.add()
        page.put(2, keys, Style.KEY)
        page.put(34, what)
    while len(page.lines) < view.height - 1:
        page.add()
