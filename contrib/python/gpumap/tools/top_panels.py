# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The panels of gpumapctl top: all lines of each, from facts and a view."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from .. import Holder, SessionInfo, ShareInfo, Usage
from ..enums import DeviceFlags, DeviceState, Known
from ..facts import Device, LayersInfo
from . import text
from .text import plural, size
from .top_facts import (
    SECOND,
    Facts,
    History,
    Owned,
    Panel,
    Process,
    Row,
)
from .top_page import BARS, Page, Style


@dataclass
class Place:
    """A panel, as it was drawn last."""

    page: Page  # all its lines
    x: int
    is_shown: bool = False
    y: int = 0
    height: int = 0
    first: int = 0  # line at the top
    at: int = 0  # the selected one


@dataclass
class View:
    """What the user has chosen to see."""

    width: int
    height: int  # 0: as many lines as there are
    is_ascii: bool
    history: History | None = None  # None: no graphs
    focus: Panel = Panel.ROWS
    tab: Panel = Panel.SESSIONS  # of the lower panels, where one fits
    sort: int = 0  # in SORTS
    row: int = 0  # the selected one
    is_flat: bool = False  # no tree
    is_paused: bool = False
    is_help: bool = False
    is_typing: bool = False  # a filter
    asks: bool = False  # whether to drain, or undrain, the selected row
    filter: str = ""
    message: str = ""
    places: dict[Panel, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.page = Page(self.width, self.is_ascii)  # the screen
        for panel in Panel:
            self.places[panel] = Place(self.page, 0)

    def matches(self, *texts: str | None) -> bool:
        """Does any of these contain the filter?"""
        wanted = self.filter.lower()
        return any(wanted in (one or "").lower() for one in texts)


def put_end(
    page: Page, view: View, facts: Facts, asked: object, none: str
) -> None:
    """Say why a list is not known, or that a page has no line."""
    if asked is None and facts.refusal:
        page.add()
        page.put(1, f"not known: {facts.refusal}", Style.WARN)
    if not page.lines:
        page.add()
        none = "not known" if asked is None else none
        none = "nothing with this text" if view.filter else none
        page.put(1, none, Style.DIM)


def age(ns: int) -> str:
    """ "3 s", "12 min", "5 h", "9 d"."""
    seconds = ns // SECOND
    for unit, length in ("d", 86400), ("h", 3600), ("min", 60):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def rows_text(rows: Collection[int]) -> str:
    """ "row 3", "rows 0,2-5"; a longer list is cut with "..."."""
    if not rows:
        return "no row"
    words = "row " if len(rows) == 1 else "rows "
    for i, run in enumerate(text.ranges(rows)):
        if len(words) > 24:
            return words + ",..."
        first, _, last = run.partition("-")
        if last and int(last) == int(first) + 1:
            run = f"{first},{last}"
        words += f",{run}" if i else run
    return words


# ---- rows -------------------------------------------------------------------

ROW, KIND, STATE, BAR = 1, 5, 11, 22  # columns
MEMORY = 18  # columns, with the blank before it; likewise in FIGURES
BAR_LEAST, BAR_MOST, NAME_LEAST = 12, 96, 8


class Figure(NamedTuple):
    """A column of rows, where there is room for it."""

    heading: str
    width: int
    text: Callable[[Row], str | None]
    is_wanted: Callable[[Row], object]  # of a row


def known(
    fact: Known, heading: str, width: int, text: Callable[[Device], str]
) -> Figure:
    """A column of a fact, where a row knows it."""

    def text_of(row: Row) -> str | None:
        return text(row.device) if row.device.known & fact else None

    return Figure(heading, width, text_of, text_of)


def rate_text(row: Row) -> str | None:
    """ "12", "3400", "56 k"."""
    if DeviceFlags.SERVES not in row.device.flags:
        return None
    if row.rate < 9999.5:
        return f"{int(row.rate + 0.5)}"
    return f"{int(row.rate / 1000 + 0.5)} k"


FIGURES = [
    known(Known.UTILISATION, "busy", 6, lambda d: f"{d.utilisation // 10} %"),
    known(
        Known.TEMPERATURE, "heat", 6, lambda d: f"{int(d.temperature / 1000)} C"
    ),
    known(Known.POWER, "power", 7, lambda d: f"{d.power // 1000} W"),
    Figure("jobs/s", 7, rate_text, lambda row: row.jobs),
    Figure(
        "died",
        5,
        lambda row: str(row.device.restarts),
        lambda row: row.device.restarts,
    ),
]

# Higher comes first; rows of the same stay in their order.
SORTS: list[tuple[str, Callable[[Device], float]]] = [
    ("", lambda d: 0),
    (" by used memory", lambda d: d.used),
    (" by promised memory", lambda d: d.promised),
    (" by free memory", lambda d: d.unclaimed),
    (" by load", lambda d: d.utilisation),
    (" by temperature", lambda d: d.temperature),
    (" by state", lambda d: 0 if d.state == DeviceState.READY else d.state),
]


class Columns:
    """Where each column begins."""

    def __init__(self, view: View, facts: Facts, width: int) -> None:
        rest = width - BAR - MEMORY - 1
        shown = []
        for figure in FIGURES:
            if figure.text is rate_text and view.history is None:
                continue
            wanted = any(figure.is_wanted(row) for row in facts.rows)
            if wanted and rest - figure.width >= BAR_LEAST:
                shown.append(figure)
                rest -= figure.width
        bar = max(rest * 9 // 20, BAR_LEAST)
        if rest - bar - 2 < NAME_LEAST:
            bar = rest
        bar = min(bar, BAR_MOST)
        self.memory = x = BAR + bar
        x += MEMORY
        self.figures: list[tuple[int, Figure]] = []
        for figure in shown:
            self.figures.append((x, figure))
            x += figure.width
        self.name = x + 2 if bar < rest else None


def put_headings(page: Page, view: View, facts: Facts) -> None:
    """Put the headings of the columns of rows."""
    columns = Columns(view, facts, page.width)
    page.put(ROW, "row", Style.DIM)
    page.put(KIND, "kind", Style.DIM)
    page.put(STATE, "state", Style.DIM)
    page.put(BAR, "memory", Style.DIM, columns.memory)
    end = columns.memory + MEMORY
    page.right(columns.memory, end, "taken/all", Style.DIM)
    for x, figure in columns.figures:
        page.right(x, x + figure.width, figure.heading, Style.DIM)
    if columns.name:
        page.put(columns.name, "device", Style.DIM)


def put_rows(page: Page, view: View, facts: Facts) -> None:
    """Put the rows, by NUMA node, in their order."""
    columns = Columns(view, facts, page.width)
    key = SORTS[view.sort][1]
    rows = sorted(facts.rows, key=lambda r: (-key(r.device), r.device.row))
    rows = [
        row
        for row in rows
        if view.matches(
            row.device.name,
            row.device.kind.name,
            state_of(row.device)[0],
            row.device.reason,
        )
    ]
    nodes = {max(row.device.numa_node, -1) for row in rows}
    for node in sorted(nodes, key=lambda node: (node < 0, node)):
        if not view.is_flat:
            put_node(page, node, facts)
            for row in rows:
                if max(row.device.numa_node, -1) == node:
                    put_row(page, columns, row)
    for row in rows if view.is_flat else []:
        put_row(page, columns, row)
    put_end(page, view, facts, facts.rows, "no row")


def put_node(page: Page, node: int, facts: Facts) -> None:
    """Put the heading of a NUMA node; -1: of the rows of none."""
    devices = [row.device for row in facts.rows]
    devices = [d for d in devices if max(d.numa_node, -1) == node]
    page.add()
    name = f"NUMA node {node}" if node >= 0 else "no NUMA node"
    page.put(
        page.put(1, name, Style.STRONG) + 2,
        f"{plural(len(devices), 'row')}, {size(sum(d.used for d in devices))}"
        f" used, {size(sum(d.promised for d in devices))} promised,"
        f" {size(sum(d.unclaimed for d in devices))} free",
        Style.DIM,
    )


def put_row(page: Page, columns: Columns, row: Row) -> None:
    """Put a row."""
    device = row.device
    page.add(device.row)
    page.right(ROW, ROW + 3, str(device.row), Style.STRONG)
    page.put(KIND, device.kind.name.lower(), end=STATE - 1)
    page.put(STATE, *state_of(device), BAR - 1)
    taken = device.used + device.promised
    width = columns.memory - BAR
    page.fill(BAR, columns.memory, "·", Style.FREE)
    parts = zip((taken, device.used, row.ours), reversed(BARS[:3]))
    for bytes, (style, sign, _) in parts:
        cells = int(bytes / (device.total_bytes or 1) * width + 0.5)
        page.fill(BAR, min(BAR + cells, columns.memory), sign, style)
    memory = f"{size(taken)}/{size(device.total_bytes)}"
    page.right(columns.memory, columns.memory + MEMORY, memory)
    for x, figure in columns.figures:
        page.right(x, x + figure.width, figure.text(row) or "")
    if columns.name:
        x = page.put(columns.name, device.name)
        if device.reason:
            page.put(x, f": {device.reason}", Style.BAD)


def state_of(device: Device) -> tuple[str, Style]:
    """The state, "CORDONED" of one that is READY else, and its colour."""
    if device.state in (DeviceState.FAILED, DeviceState.LOST):
        return device.state.name, Style.BAD
    if device.state != DeviceState.READY:
        return device.state.name, Style.WARN
    if device.flags & DeviceFlags.CORDONED:
        return "CORDONED", Style.WARN
    return "READY", Style.GOOD


# ---- the selected row -------------------------------------------------------

LABEL = 7  # columns before a graph


def put_detail(
    page: Page, view: View, facts: Facts, line: int, height: int
) -> None:
    """Put a line: the selected row's facts, and below these its graphs."""
    if view.row >= len(facts.rows) or view.history is None:
        return
    device = facts.rows[view.row].device
    if line == 0:
        put_facts(page, device)
        return
    is_busy = bool(device.known & Known.UTILISATION)
    middle, end = view.width // 2, view.width - 1
    graphs = [
        (1, middle if is_busy else end, "used", view.history.used, Style.OURS),
        (middle + 1, end, "busy", view.history.busy, Style.GOOD),
    ]
    for x, stop, what, samples, style in graphs[: 1 + is_busy]:
        newest = list(reversed(samples[view.row]))[: stop - x - LABEL]
        if line == height - 1:
            page.put(x, what, Style.DIM, x + LABEL - 1)
        elif line == 1:
            page.right(x, x + LABEL - 1, f"{newest[0] // 10} %")
        for ago, sample in enumerate(newest):
            sign = part_of(sample, height - 1 - line, height - 1)
            page.fill(stop - 1 - ago, stop - ago, sign, style)


def put_facts(page: Page, device: Device) -> None:
    """Put the facts of a row, as a title."""
    page.fill(0, 1, "─", Style.DIM)
    x = page.put(2, f"row {device.row}", Style.TITLE)
    x = page.put(x + 2, device.name, Style.STRONG)
    pci = text.pci(device)
    if pci:
        x = page.put(x + 2, pci)
    x = page.put(x + 2, f"{size(device.unclaimed)} free")
    if device.worker_pid:
        x = page.put(x + 2, f"worker {device.worker_pid}")
    if device.restarts:
        times = plural(device.restarts, "time")
        x = page.put(x + 2, f"died {times}", Style.WARN)
    if device.reason:
        x = page.put(x + 2, device.reason, Style.BAD)
    page.fill(x + 1, page.width, "─", Style.DIM)


def part_of(per_mille: int, above: int, height: int) -> str:
    """The part of a column that is in a cell with so many cells below it."""
    level = per_mille * height * 8 // 1000
    if per_mille > 0:
        level = max(level, 1)
    return " ▁▂▃▄▅▆▇█"[max(0, min(level - above * 8, 8))]


# ---- sessions: user, process, what it has -----------------------------------

LOAD_BAR = 10  # columns
Entry = Owned[SessionInfo] | Owned[Holder] | Owned[Usage]


def entry_bytes(facts: Facts, entry: Entry) -> int:
    """The bytes that a session, a reservation, or what is kept has."""
    if isinstance(entry.info, SessionInfo):
        return sum(usage.bytes for usage in facts.usage_of(entry.info.id))
    return entry.info.bytes if isinstance(entry.info, Usage) else entry.bytes


def put_sessions(page: Page, view: View, facts: Facts) -> None:
    """Put sessions, reservations, and memory that outlives its session."""
    entries: list[Entry] = [*(facts.sessions or []), *facts.holders]
    if facts.sessions is not None:
        usages = facts.usages or []
        entries += [usage for usage in usages if usage.info.session == 0]
    entries = [
        entry
        for entry in entries
        if view.matches(
            entry.process.user,
            entry.process.command,
            entry.info.name if isinstance(entry.info, Holder) else "",
        )
    ]
    entries.sort(key=lambda entry: (entry.process.user, entry.process.pid))
    if view.is_flat:
        for entry in entries:
            page.add(0)
            x = page.put(1, f"{entry.process.user[:10]:10} ", Style.TITLE)
            x = put_process(page, x, entry.process)
            put_entry(page, max(30, x + 2), facts, entry)
    else:
        put_tree(page, facts, entries)
    none = "no session and no reservation"
    put_end(page, view, facts, facts.sessions, none)


def put_tree(page: Page, facts: Facts, entries: list[Entry]) -> None:
    """Put one thing beside its process; several below it."""
    for _, of_user in groupby(entries, key=lambda entry: entry.process.uid):
        mine = list(of_user)
        has = reserved = 0
        for entry in mine:
            if isinstance(entry.info, Holder):
                reserved += entry_bytes(facts, entry)
            else:
                has += entry_bytes(facts, entry)
        page.add(0)
        x = page.put(1, mine[0].process.user, Style.TITLE)
        what = f"has {size(has)}, reserves {size(reserved)}"
        page.put(x + 2, what, Style.DIM)
        for _, of_process in groupby(mine, key=lambda entry: entry.process.pid):
            things = list(of_process)
            page.add(0)
            x = put_process(page, 3, things[0].process)
            for thing in things:
                if len(things) > 1:
                    page.add(0)
                put_entry(page, x + 1 if len(things) == 1 else 5, facts, thing)


def put_process(page: Page, x: int, process: Process) -> int:
    """Put the name of a process and its pid."""
    if process.pid == 0:
        return page.put(x, "no process")
    x = page.put(x, process.command or "process", Style.STRONG)
    return page.put(x, f" {process.pid}", Style.DIM)


def put_entry(page: Page, x: int, facts: Facts, entry: Entry) -> None:
    """Put what a process has."""
    info, has = entry.info, size(entry_bytes(facts, entry))
    if isinstance(info, SessionInfo):
        put_session(page, x, facts, info, has)
    elif isinstance(info, Usage):
        what = f"{has} of row {info.row}, kept by a name or by importers"
        page.put(x, what)
    else:
        what = f"reserves {has} of {rows_text(entry.rows)} as {info.name}"
        x = page.put(x, what)
        if info.start_ns:
            page.put(x, f", starts, {age(info.start_ns)} left", Style.WARN)


def put_session(
    page: Page, x: int, facts: Facts, info: SessionInfo, has: str
) -> None:
    """Put "session 3 has 1 GiB, loads ##........ 20 % of 12 GiB of row 0"."""
    usages = facts.usage_of(info.id)
    lent = sum(usage.lent_bytes for usage in usages)
    borrowed = sum(usage.borrowed_bytes for usage in usages)
    x = page.put(x, f"session {info.id} has {has}")
    if info.load_total_bytes:
        part = min(info.load_bytes / info.load_total_bytes, 1)
        x = page.put(x, ", loads ")
        page.fill(x, x + LOAD_BAR, "·", Style.FREE)
        page.fill(x, x + int(part * LOAD_BAR), "█", Style.OURS)
        total = size(info.load_total_bytes)
        x = page.put(x + LOAD_BAR, f" {int(part * 100)} % of {total}")
    if lent:
        x = page.put(x, f", lent {size(lent)}")
    if borrowed:
        x = page.put(x, f", borrowed {size(borrowed)}")
    x = page.put(x, f" of {rows_text(info.rows)}")
    page.put(x, f", {age(info.age_ns)}", Style.DIM)


# ---- models: shares, then layer maps ----------------------------------------

Model = Owned[ShareInfo] | Owned[LayersInfo]


def put_models(page: Page, view: View, facts: Facts) -> None:
    """Put shares and layer maps."""
    models: list[Model] = [*(facts.shares or []), *facts.maps]
    for model in models:
        if view.matches(model.info.name, model.process.user):
            put_model(page, model)
    put_end(page, view, facts, facts.shares, "no share and no layer map")


def put_model(page: Page, model: Model) -> None:
    """Put one: the name has what the other columns leave."""
    info = model.info
    x = min(max(page.width - 56, 12), 40)
    page.add(0)
    page.put(1, info.name, Style.STRONG, x)
    page.put(x + 1, model.process.user, end=x + 11)
    if isinstance(info, ShareInfo):
        page.right(x + 11, x + 20, size(info.bytes))
        words = plural(info.n_holders, "holder") + ", kept" * info.kept
        x = page.put(x + 21, words, Style.GOOD)
        x = page.put(x, f", {rows_text(info.rows)}")
        page.put(x, f", {age(info.age_ns)}", Style.DIM)
    else:
        page.right(x + 11, x + 20, size(model.bytes) if model.bytes else "-")
        words = plural(info.n_layers, "layer") + ", reserved" * info.committed
        page.put(x + 21, f"{words}, {rows_text(model.rows)}")


# ---- who waits for whom -----------------------------------------------------


def put_waits(page: Page, view: View, facts: Facts) -> None:
    """Put the requests that wait."""
    for i, wait in enumerate(facts.waits or []):
        process = wait.process
        if view.matches(wait.info.name, process.user, process.command):
            put_wait(page, view, facts, i)
    put_end(page, view, facts, facts.waits, "no request waits")


def put_wait(page: Page, view: View, facts: Facts, i: int) -> None:
    """Put one, and for whom it waits."""
    wait = (facts.waits or [])[i]
    info = wait.info
    page.add(0)
    x = page.put(1, f"{i + 1} ", Style.WARN)
    x = put_process(page, x, wait.process)
    asked = size(info.bytes) if info.bytes else "a plan"
    x = page.put(x, f" asks {asked} of {rows_text(info.rows)} as {info.name}")
    x = page.put(x, f", waits {age(info.age_ns)}", Style.DIM)
    if info.missing_bytes:
        missing = f", {size(info.missing_bytes)} missing on"
        x = page.put(x, f"{missing} row {info.missing_row}", Style.WARN)
    if not view.is_flat:
        page.add(0)
        x = 3
    x += 1
    holder, before = facts.wait_for(i)
    if holder:
        x = put_process(page, page.put(x, "for "), holder.process)
        reserves = f"{size(holder.bytes)} as {holder.info.name}"
        x = page.put(x, f", which reserves {reserves}")
    if before:
        waits = f"{before} wait{'s' if before == 1 else ''} before"
        page.put(x, f", {waits}" if holder else waits)
