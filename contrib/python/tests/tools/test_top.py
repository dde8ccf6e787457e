# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The screen of gpumapctl top: what is where, and what keys do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from gpumap import DeviceFlags, DeviceKind, DeviceState, Known, State
from gpumap.facts import (
    Charge,
    Device,
    Health,
    Holder,
    LayersInfo,
    SessionInfo,
    ShareInfo,
    Usage,
    Waiting,
)
from gpumap.tools.text import columns
from gpumap.tools.top_facts import Facts, History, Owned, Panel, Process, Row
from gpumap.tools.top_json import of_facts
from gpumap.tools.top_keys import Deed, click, press, wheel
from gpumap.tools.top_layout import lay_out, panels_of
from gpumap.tools.top_page import CHOSEN
from gpumap.tools.top_panels import View, age, rows_text

GIB = 1 << 30
SECOND = 1_000_000_000
T = TypeVar("T")


def a(kind: type[T], /, **facts: Any) -> T:
    """A fact whose other members are 0 or ""."""
    for name, type in kind.__annotations__.items():
        empty: Any = type() if type in (str, tuple[int, ...]) else 0
        facts.setdefault(name, empty)
    return kind(**facts)


def process(pid: int, user: str, command: str | None) -> Process:
    return Process(pid, ord(user[0]), user, command)


def card(row: int, n: int) -> Row:
    """Of 80 GiB: a quarter is used, half of that by sessions; a quarter is
    promised."""
    known = Known.NUMA | Known.UTILISATION | Known.TEMPERATURE | Known.POWER
    device = a(
        Device,
        row=row,
        kind=DeviceKind.CUDA,
        state=DeviceState.READY,
        name="H100",
        numa_node=int(row >= n // 2),
        known=known,
        flags=DeviceFlags.SERVES | DeviceFlags.CARD,
        total_bytes=80 * GIB,
        free_bytes=60 * GIB,
        reserved_bytes=20 * GIB,
        utilisation=500 + row,
        temperature=60000,
        power=300000,
    )
    return Row(device, ours=10 * GIB)


ADA, BOB = process(100, "ada", "vllm"), process(200, "bob", "sglang")
NOBODY = process(0, "bob", None)


class Node:
    """Facts about a node, and what is on the screen."""

    def __init__(self, n: int = 4, width: int = 80, height: int = 24) -> None:
        small = a(Charge, row=1, weight_bytes=8 * GIB)
        large = a(Charge, row=2, kv_bytes=30 * GIB)
        sessions = [
            a(SessionInfo, id=7, pid=100, age_ns=90 * SECOND, rows=(0, 1)),
            a(SessionInfo, id=8, pid=300, age_ns=5 * SECOND, rows=(0,)),
        ]
        share = a(
            ShareInfo,
            name="llama",
            n_holders=3,
            bytes=16 * GIB,
            flags=4,
            rows=(0, 1, 2),
            age_ns=7200 * SECOND,
        )
        plan = tuple(
            a(Charge, row=row, kv_bytes=10 * GIB) for row in range(1, 5)
        )
        first = a(
            Waiting,
            name="first",
            bytes=60 * GIB,
            rows=(1, 2),
            age_ns=3 * SECOND,
            missing_bytes=GIB,
            missing_row=2,
        )
        second = a(Waiting, name="second", rows=(2,), age_ns=SECOND, n_before=1)
        lent = a(Usage, session=7, row=1, bytes=4 * GIB, lent_bytes=GIB)
        self.facts = Facts(
            instance="node",
            health=a(Health, state=State.READY, epoch=3, agent_version=10203),
            taken_ns=SECOND,
            time_s=8 * 3600 + 12 * 60 + 3,
            up_s=3 * 3600,
            rows=[card(row, n) for row in range(n)],
            holders=[
                Owned(a(Holder, name="small"), ADA, (small,)),
                Owned(a(Holder, name="large"), BOB, (large,)),
            ],
            maps=[Owned(a(LayersInfo, name="plan", n_layers=80), NOBODY, plan)],
            usages=[
                Owned(lent, ADA),
                Owned(a(Usage, bytes=2 * GIB), NOBODY),
            ],
            sessions=[
                Owned(sessions[0], ADA),
                Owned(sessions[1], process(300, "ada", "python")),
            ],
            shares=[Owned(share, ADA)],
            waits=[
                Owned(first, process(400, "eve", "trtllm")),
                Owned(second, process(500, "eve", "trtllm")),
            ],
        )
        self.history = History()
        self.history.add(self.facts)
        self.view = View(width, height, False, self.history)
        self.text = self.draw()

    def draw(self, **changes: Any) -> str:
        for name, value in changes.items():
            setattr(self.view, name, value)
        lay_out(self.view, self.facts)
        self.text = f"{self.view.page}\n"
        return self.text

    def device(self, row: int, **changes: Any) -> None:
        found = self.facts.rows[row]
        found.device = found.device._replace(**changes)

    def press(self, *keys: str) -> Deed:
        for key in keys:
            deed = press(self.view, self.facts, key)
            self.draw()
        return deed

    def is_sound(self) -> bool:
        """Is each cell what a terminal shows in its own place?"""
        page = self.view.page
        for line in page.lines:
            for i, c in enumerate(line.chars):
                after = line.chars[i + 1 : i + 2] == [""]
                if c and (not c.isprintable() or after != (columns(c) == 2)):
                    return False
                if page.is_ascii and not c.isascii():
                    return False
            if columns("".join(line.chars)) != page.width:
                return False
        return all(len(line.chars) == page.width for line in page.lines)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


SCREEN = """\
 node  gpumapd 1.2.3 READY for 3 h, start 3  4 rows                    08:12:03
─ rows ─────────────────────────── ██ sessions  ▓▓ others  ▒▒ promised  ·· free
 row kind  state      memory                       taken/all  busy  heat  power
 NUMA node 0  2 rows, 40.0 GiB used, 40.0 GiB promised, 80.0 GiB free
   0 cuda  READY      ███▓▓▒▒▒▒▒·········· 40.0 GiB/80.0 GiB  50 %  60 C  300 W
   1 cuda  READY      ███▓▓▒▒▒▒▒·········· 40.0 GiB/80.0 GiB  50 %  60 C  300 W
 NUMA node 1  2 rows, 40.0 GiB used, 40.0 GiB promised, 80.0 GiB free
   2 cuda  READY      ███▓▓▒▒▒▒▒·········· 40.0 GiB/80.0 GiB  50 %  60 C  300 W
   3 cuda  READY      ███▓▓▒▒▒▒▒·········· 40.0 GiB/80.0 GiB  50 %  60 C  300 W
─ row 0  H100  40.0 GiB free ───────────────────────────────────────────────────
   25 %                                    50 %
 used                                  ▄ busy                                 █
─ sessions and reservations 4  models 2  waits 2 ───────────────────────────────
 ada  has 4.0 GiB, reserves 8.0 GiB
   vllm 100
     session 7 has 4.0 GiB, lent 1.0 GiB of rows 0,1, 90 s
"""
LISTS = """\
   python 300 session 8 has 0 B of row 0, 5 s
     reserves 8.0 GiB of row 1 as small
 bob  has 2.0 GiB, reserves 30.0 GiB
   no process 2.0 GiB of row 0, kept by a name or by importers
   sglang 200 reserves 30.0 GiB of row 2 as large
 llama                                   ada        16.0 GiB 3 holders, kept, \
rows 0-2, 2 h
 plan                                    bob        40.0 GiB 80 layers, rows 1-4
 1 trtllm 400 asks 60.0 GiB of rows 1,2 as first, waits 3 s, 1.0 GiB missing \
on row 2
    for sglang 200, which reserves 30.0 GiB as large
 2 trtllm 500 asks a plan of row 2 as second, waits 1 s
    for sglang 200, which reserves 30.0 GiB as large, 1 waits before
"""


def test_screen() -> None:
    node = Node()
    assert node.is_sound() and node.text.startswith(SCREEN)
    assert len(node.view.page.lines) == 24
    keys = " q quit  h help  Tab panel  s sort  / filter  t tree  d drain  "
    assert node.text.endswith(f"\n{keys}space pause\n")


def test_lists() -> None:
    lines = Node(width=120, height=60).text.splitlines()
    assert [line for line in LISTS.splitlines() if line not in lines] == []
    node = Node(width=120, height=60)
    node.facts.sessions[1:] = [  # type: ignore[index]
        Owned(
            a(SessionInfo, id=8, load_bytes=got, load_total_bytes=12 * GIB),
            process(pid, "ada", "python"),
        )
        for pid, got in ((300, 5 * GIB), (301, 2**64 - 1))
    ]
    node.draw(is_flat=True)
    assert "NUMA node" not in node.text
    assert " ada        vllm 100          session 7 has 4.0 GiB" in node.text
    assert " loads ████······ 41 % of 12.0 GiB of no row, 0 s\n" in node.text
    assert " loads ██████████ 100 % of 12.0 GiB" in node.text  # of a liar


def test_for_whom_a_request_waits() -> None:
    node = Node()
    assert node.facts.wait_for(1) == (node.facts.holders[1], 1)
    wait = node.facts.waits[1]  # type: ignore[index]
    start = wait.info._replace(flags=1, rows=(1,))
    node.facts.waits[1] = wait._replace(info=start)  # type: ignore[index]
    # None that waits to start waits for one that has started.
    assert node.facts.wait_for(1) == (None, 1)
    small = node.facts.holders[0]
    starting = small.info._replace(start_ns=5 * SECOND)
    node.facts.holders[0] = small._replace(info=starting)
    assert node.facts.wait_for(1) == (node.facts.holders[0], 1)
    other = wait.info._replace(rows=(3,), n_before=0)
    node.facts.waits[1] = wait._replace(info=other)  # type: ignore[index]
    assert node.facts.wait_for(1) == (None, 0)
    node.draw(width=120, height=60)
    assert "reserves 8.0 GiB of row 1 as small, starts, 5 s left" in node.text


def test_unknown_lists_say_so() -> None:
    node = Node()
    facts = node.facts
    facts.sessions = facts.shares = facts.waits = None
    facts.holders, facts.maps = [], []
    facts.refusal = "no \x1b[31magent"
    node.draw(width=120, height=60)
    assert node.is_sound() and "reservations ─" in node.text
    assert node.text.count("\n not known: no ?[31magent\n") == 3
    facts.sessions, facts.shares, facts.waits, facts.usages = [], [], [], []
    node.draw()
    for words in "session and no reservation", "share and no layer map":
        assert f"\n no {words}\n" in node.text
    assert "\n no request waits\n" in node.text


@pytest.mark.parametrize(
    "sort, title, first",
    [
        (0, "", 0),
        (1, " by used memory", 3),
        (2, " by promised memory", 0),
        (3, " by free memory", 1),
        (4, " by load", 3),
        (5, " by temperature", 2),
        (6, " by state", 2),
    ],
)
def test_order(sort: int, title: str, first: int) -> None:
    node = Node()
    node.device(3, free_bytes=50 * GIB)
    node.device(1, reserved_bytes=0, flags=DeviceFlags.CORDONED)
    node.device(
        2,
        temperature=70000,
        state=DeviceState.FAILED,
        reason="Xid 79",
        restarts=5,
    )
    node.draw(width=120, height=60, is_flat=True, sort=sort)
    lines = node.text.splitlines()
    assert lines[1].startswith(f"─ rows{title} ─")
    assert lines[3].startswith(f"   {first} cuda ")
    assert "   1 cuda  CORDONED " in node.text
    assert "  70 C  300 W    5  H100: Xid 79\n" in node.text
    assert lines[0].find("  5 workers died") > 0
    node.draw(filter="xid")
    assert f"─ rows{title} with xid ─" in node.text
    assert "\n   0 cuda" not in node.text
    assert "\n nothing with this text\n" in node.text
    assert node.view.row == 2  # one that is shown


def test_rates() -> None:
    node = Node(width=120, height=40)
    assert "jobs/s" not in node.text
    for row, jobs in ((0, 7), (1, 30000), (3, 8)):
        node.facts.rows[row].jobs = jobs
    node.device(3, flags=DeviceFlags(0))
    node.facts.taken_ns += 2 * SECOND
    node.history.add(node.facts)
    lines = node.draw().splitlines()
    x = lines[2].index(" jobs/s")
    for line, rate in ((4, "4"), (5, "15 k"), (8, "")):
        assert lines[line][x : x + 7] == f"{rate:>7}"
    # Another device has the row.
    node.facts.taken_ns += 2 * SECOND
    node.facts.rows[1] = replace(node.facts.rows[1], jobs=1, rate=0)
    node.history.add(node.facts)
    assert node.facts.rows[1].rate == 0
    assert "jobs/s" not in node.draw(history=None)


@pytest.mark.parametrize("n", [0, 1, 65])
@pytest.mark.parametrize("width", [1, 59, 60, 139, 140, 299])
def test_sizes(n: int, width: int) -> None:
    node = Node(n)
    node.view.row = max(n - 1, 0)
    rows = node.view.places[Panel.ROWS]
    for height in 1, 2, 15, 16, 30, 41, 70:
        node.draw(width=width, height=height, is_ascii=width % 2 == 1)
        assert len(node.view.page.lines) == height and node.is_sound()
        if n and width >= 60 and height >= 16:
            assert rows.first <= rows.at < rows.first + rows.height
    node.draw(width=40, height=10)
    assert node.text.startswith(
        "too small:\ntop needs 60x16,\nthis is 40x10\n"
    )


def test_once_has_every_row() -> None:
    node = Node(256)
    node.draw(height=0, history=None)
    assert all(f"\n {row:3} cuda " in node.text for row in range(256))
    assert "as first, waits" in node.text and "q quit" not in node.text


def test_no_name_reaches_the_terminal() -> None:
    evil = "\x1b]0;x\x07\x9b31m\u202e\udcff\x7f\u0301\u1160"
    node = Node()
    for row in range(4):
        node.device(row, name=evil, reason=evil)
    share = node.facts.shares[0]  # type: ignore[index]
    node.facts.shares = [share._replace(info=share.info._replace(name=evil))]
    for width, height in ((200, 60), (80, 24)):
        node.draw(width=width, height=height, message=evil)
        assert node.is_sound() and "?]0;x??31m?????" in node.text


@pytest.mark.parametrize("width", range(60, 70))
def test_wide_names(width: int) -> None:
    node = Node()
    share = node.facts.shares[0]  # type: ignore[index]
    wide = share.info._replace(name="模型" * 9)
    node.facts.shares = [share._replace(info=wide)]
    node.draw(width=width, tab=Panel.MODELS)
    assert node.is_sound() and "\n 模型" in node.text
    node.draw(is_ascii=True)
    assert node.is_sound() and "\n ????" in node.text


def test_facts_of_an_agent_that_is_gone_stay() -> None:
    node, now = Node(width=120, height=40), Node().facts
    now.sessions = now.shares = now.waits = now.usages = None
    now.keep(node.facts)
    assert now.sessions is None  # nothing, of an agent that is there
    now.refusal = "no answer"  # one that goes refuses before it is missed
    now.keep(node.facts)
    assert now.sessions == node.facts.sessions and len(now.waits or []) == 2
    assert [row.ours for row in now.rows] == [2 * GIB, 4 * GIB, 0, 0]
    node.facts.health = a(
        Health, state=State.READY, stale=True, age_ns=63 * SECOND
    )
    node.draw()
    assert " GONE, start 0 " in node.text
    assert (
        "\n No gpumapd since 08:11:00 (63 s), facts are old: run gpumapctl"
        " doctor, systemctl status gpumapd\n" in node.text
    )
    node.facts.health = a(Health, state=State.RETIRED)
    assert " RETIRED, start 0 " in node.draw()


def test_json() -> None:
    facts = Node().facts
    facts.usages = None
    got = of_facts(facts)
    assert got["rows"][3]["session_bytes"] is None
    assert got["rows"][3]["temperature"] == 60000
    assert got["reservations"][1]["rows"] == [{"row": 2, "bytes": 30 * GIB}]
    assert got["waits"][1]["for"] == "large" and got["waits"][1]["before"] == 1
    assert got["waits"][1]["bytes"] is None and got["shares"][0]["kept"]
    assert got["maps"][0]["rows"] == [1, 2, 3, 4]
    facts.waits = None
    facts.usages = Node().facts.usages
    got = of_facts(facts)
    assert got["waits"] is None and len(got["sessions"][0]["usage"]) == 1
    assert got["rows"][3]["session_bytes"] == 10 * GIB


@pytest.mark.parametrize(
    "value, expected",
    [
        ([], "no row"),
        ([3], "row 3"),
        ([0, 2, 3, 4], "rows 0,2-4"),
        ([0, 1], "rows 0,1"),
        (range(0, 256, 2), "rows 0,2,4,6,8,10,12,14,16,..."),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (172799, "47 h"),
        (172800, "2 d"),
    ],
)
def test_words(value: Any, expected: str) -> None:
    if isinstance(value, int):
        assert age(value * SECOND + 1) == expected
    else:
        assert rows_text(value) == expected


# ---- keys -------------------------------------------------------------------


@pytest.mark.parametrize(
    "row, keys, expected",
    [
        (0, ["up"], 0),
        (0, ["down", "j"], 2),
        (2, ["k"], 1),
        (0, ["end"], 63),
        (63, ["down"], 63),
        (63, ["page up"], 53),
        (63, ["home"], 0),
        (0, ["page down"], 10),
        (31, ["down"], 32),  # over a heading
        (32, ["up"], 31),
        (31, ["s", "S"], 31),  # it stays selected in another order
    ],
)
def test_moves(row: int, keys: list[str], expected: int) -> None:
    node = Node(64)
    node.draw(row=row)
    node.press(*keys)
    assert node.view.row == expected
    place = node.view.places[Panel.ROWS]
    assert place.first <= place.at < place.first + place.height
    assert expected or place.first == 0  # with its heading


def test_chosen_line() -> None:
    node = Node(height=40)
    for words in "   0 cuda", " ada  has", " llama":
        lines = node.view.page.lines
        chosen = ["".join(x.chars) for x in lines if max(x.styles) >= CHOSEN]
        assert len(chosen) == 1 and chosen[0].startswith(words)
        node.press("\t")


def test_no_rows() -> None:
    node = Node(0)
    node.press("down", "end", "home", "d")
    assert not node.view.asks and "\n no row\n" in node.text


def test_panels() -> None:
    node = Node()
    assert panels_of(node.view) == {Panel.ROWS, Panel.SESSIONS}
    node.press("\t", "\t")
    assert node.view.focus == Panel.MODELS
    assert panels_of(node.view) == {Panel.ROWS, Panel.MODELS}
    node.press("down")
    assert node.view.places[Panel.MODELS].at == 1
    node.press("\t", "\t")
    assert (node.view.focus, node.view.tab) == (Panel.ROWS, Panel.WAITS)
    node.press("back tab")
    assert node.view.focus == Panel.WAITS


@pytest.mark.parametrize(
    "keys, filter",
    [
        ("l40q", "l40q"),  # q is a letter here
        (["l", "é", "模", "backspace", "enter"], "lé"),
        ([*"l40", "up", "\x01", ""], "l40"),
        ([*"l40", "escape"], ""),
        ([*"l40", "enter", "escape"], ""),
        ("x" * 100, "x" * 44),
    ],
)
def test_filter(keys: list[str], filter: str) -> None:
    node = Node()
    node.device(2, name="L40S É 模")
    node.press("/", *keys)
    assert node.view.filter == filter
    footer = node.text.splitlines()[-1]
    assert footer.startswith(" filter:" if node.view.is_typing else " q quit")
    assert (f" with {filter[:9]}" in node.text) == (filter != "")
    assert ("\n   0 cuda" in node.text) == (filter == "")


def test_drain() -> None:
    node = Node()
    question = "\n Drain row 1?  y or n: ends its jobs and memory, "
    assert node.press("down", "d") == Deed.DRAW
    assert f"{question}1 session, 1 share\n" in node.text
    lower = {Panel.SESSIONS, Panel.MODELS}
    assert panels_of(node.view) == {Panel.ROWS, *lower}
    for no in "n", "enter", "q", "":  # no answer but y drains, or quits
        assert node.press(no) == Deed.DRAW and not node.view.asks
        node.press("d")
    assert node.press("y") == Deed.DRAIN and node.view.row == 1
    node.facts.shares = None
    node.press("d")
    assert f"{question}and shares there\n" in node.text
    node.press("n")
    node.device(1, state=DeviceState.DRAINING)
    node.press("d")
    assert "\n Take row 1 into service again?  y or n\n" in node.text
    assert node.press("Y") == Deed.DRAIN


def test_mouse() -> None:
    node = Node(64)
    view, rows = node.view, node.view.places[Panel.ROWS]
    lower = view.places[Panel.SESSIONS]
    for y, row in ((3, 2), (0, 0)):  # the first is a heading
        click(view, 30, rows.y + y)
        assert view.row == row
    for lines, row in ((3, 3), (-3, 0)):
        wheel(view, 30, rows.y, lines)
        assert view.row == row
    click(view, 3, lower.y + 1)
    assert view.focus == Panel.SESSIONS and lower.at == 1
    for x, y in ((3, 0), (3, 1000), (-1, -1)):
        click(view, x, y)
    assert view.focus == Panel.SESSIONS
    view.asks = True
    click(view, 30, rows.y + 3)
    assert view.focus == Panel.SESSIONS and view.row == 0


def test_other_keys() -> None:
    node = Node()
    node.press("h")
    drain = "  d                               drain the selected row, or"
    assert f"\n{drain} undrain; asks\n" in node.text
    assert len(node.view.page.lines) == 24
    node.press("x")
    assert "undrain" not in node.text
    node.press("?")
    assert node.view.is_help and node.press("q") == Deed.QUIT
    node.view.is_help = False
    node.press(" ")
    assert " PAUSED " in node.text
    node.facts.instance = "a-name-that-leaves-no-room-for-any-more-" * 3
    assert " PAUSED " in node.draw() and node.is_sound()
    node.press(" ", "t")
    assert " PAUSED " not in node.text and "NUMA node" not in node.text
    node.draw(message="drain of row 1: done")
    assert "\n drain of row 1: done\n" in node.text
    assert node.press("") == Deed.DRAW and "done" not in node.text
    assert node.press("\x03") == Deed.QUIT
