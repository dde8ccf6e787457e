# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl top on a terminal of tmux: whole screens at three sizes, keys, a
click, a drain, an agent that dies and comes back, and that the terminal is left
as it was; and what top prints once.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
import pwd
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import gpumap
import pytest
from agent import Agent, agent_of_dummies, wait_for
from gpumap.enums import PLAN_COMMIT, PLAN_PUBLISH, Setting
from gpumap.tools.command import Exit

NODE = """\
name: two-cards
rows:
- { name: H100, kind: cuda, count: 2, memory: 80G, free: 70G,
    compute-capability: 9.0, sm-count: 132, threads-per-sm: 2048 }
"""
GIB = 1 << 30
USER = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    """One in which 30 GiB of row 1 are kept, by no process."""
    with agent_of_dummies(NODE) as one:
        with gpumap.attach(one.instance, one.runtime_dir) as map:
            map._plan(
                {
                    "name": "kept",
                    "flags": PLAN_PUBLISH | PLAN_COMMIT,
                    "setting": int(Setting.RESERVE),
                    "rows": [1],
                    "layer_bytes": [30 * GIB],
                }
            )
        yield one


class Terminal:
    """A terminal in which a shell runs top, and says how it ended or was
    stopped; then Enter has it go on."""

    # Each has a server of its own: one that ends takes a while.
    numbers = itertools.count()

    def __init__(self, agent: Agent, folder: Path, *environment: str) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("there is no tmux")
        self.pid_file = folder / "pid"
        self.socket = str(folder / f"tmux{next(self.numbers)}")
        script = folder / "script"
        top = shlex.join(agent.words("top"))
        runs = f"echo $$ >{self.pid_file}; exec {top}"
        words = shlex.join(
            ["env", "LC_ALL=C.UTF-8", *environment, "sh", "-c", runs]
        )
        script.write_text(
            f'set -m\n{words}\necho "ended $?"\n'
            'while read -r line; do fg; echo "ended $?"; done\n'
        )
        self.env = {**agent.env, "LC_ALL": "C.UTF-8"}
        self.tmux("new-session", "-d", "-x80", "-y24", f"exec sh {script}")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *unused: object) -> None:
        self.tmux("kill-server")

    def tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-u", "-S", self.socket, "-f", "/dev/null", *words],
            env=self.env,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def text(self, *options: str) -> str:
        return self.tmux("capture-pane", "-p", *options)

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", f"-x{width}", f"-y{height}")

    def kill(self, number: int) -> None:
        os.kill(int(self.pid_file.read_text()), number)

    def shows(self, *texts: str) -> None:
        """Wait until these are on the screen."""
        for text in texts:
            wait_for(lambda: text in self.text(), self.text)

    def hides(self, text: str) -> None:
        """Wait until this is not on it, and something is."""
        wait_for(lambda: text not in (self.text() or text), self.text)

    def is_screen(self, patterns: list[str]) -> None:
        """Wait until each line matches its pattern, and there are no others."""

        def differs() -> list[tuple[str, str]]:
            lines = self.text().splitlines()
            if len(lines) != len(patterns):
                return [("as many lines", f"{len(lines)}")]
            return [
                (pattern, line)
                for pattern, line in zip(patterns, lines)
                if not fnmatch.fnmatchcase(line, pattern)
            ]

        wait_for(lambda: not differs(), differs)

    def has_flags(self, flags: str) -> None:
        """Wait until tmux says that of the terminal: is the other screen on, is
        there a cursor, does a program take the mouse?"""
        names = "#{alternate_on}#{cursor_flag}#{mouse_any_flag}"
        ask = ("display-message", "-p", names)
        wait_for(lambda: self.tmux(*ask) == f"{flags}\n")


@pytest.fixture
def top(agent: Agent, tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(agent, tmp_path) as one:
        one.shows("   1 dummy READY")
        yield one


# ---- whole screens -----------------------------------------------------------

KEPT = "   no process reserves 30.0 GiB of row 1 as kept"
HAS = f" {USER}  has 0 B, reserves 30.0 GiB"
KEYS = (
    " q quit  h help  Tab panel  s sort  / filter  t tree  d drain  space pause"
)
HEAD = " python.*  gpumapd *.*.* READY*, start 1  3 rows*:??:??"
NODE_0 = " NUMA node 0  1 row, * used, 0 B promised, * free"
NO_NODE = (
    " no NUMA node  2 rows, 20.0 GiB used, 30.0 GiB promised, 110 GiB free"
)
SMALL = [
    HEAD,
    "─ rows ─*─ ██ sessions  ▓▓ others  ▒▒ promised  ·· free",
    " row kind  state      memory                    taken/all  device",
    NODE_0,
    "   0 host  READY      ?????????????????*/*  host *",
    NO_NODE,
    "   1 dummy READY      ▓▓▒▒▒▒▒▒▒········ 40.0 GiB/80.0 GiB  H100",
    "   2 dummy READY      ▓▓··············· 10.0 GiB/80.0 GiB  H100",
    "─ row 1  H100  40.0 GiB free ─*─",
    "   12 %",
    " used *▂",
    "─ sessions and reservations 1  models  waits ─*─",
    HAS,
    KEPT,
    *9 * [""],
    KEYS,
]
LARGE = [
    HEAD,
    SMALL[1],
    " row kind  state      memory *taken/all  device",
    NODE_0,
    "   0 host  READY      *  host *",
    NO_NODE,
    f"   1 dummy READY      {9 * '▓'}{27 * '▒'}{35 * '·'}"
    " 40.0 GiB/80.0 GiB  H100",
    f"   2 dummy READY      {9 * '▓'}{62 * '·'} 10.0 GiB/80.0 GiB  H100",
    SMALL[8],
    "   12 %",
    *3 * [""],
    " used *▅",
    "─ sessions and reservations 1 ─*─ models 1 ─*─",
    f"{HAS} * kept *{USER}*30.0 GiB 1 layer, reserved, row 1",
    KEPT,
    *29 * [""],
    " *─ waits 0 ─*─",
    " * no request waits",
    "",
    KEYS,
]
TINY = ["too small:", "top needs 60x16,", "this is 40x10", *7 * [""]]


def test_screens(top: Terminal) -> None:
    top.press("Down")
    top.is_screen(SMALL)
    # Nothing of a larger screen is left over.
    for width, height, screen in (
        (200, 50, LARGE),
        (40, 10, TINY),
        (80, 24, SMALL),
    ):
        top.resize(width, height)
        top.is_screen(screen)


# ---- keys --------------------------------------------------------------------


def test_keys(top: Terminal) -> None:
    top.press("Tab", "Tab")
    top.shows("1 layer, reserved, row 1")
    top.press("Tab")
    top.shows(" no request waits")
    top.press("Tab", "t")
    top.hides("no NUMA node")
    top.press("t", "s")
    top.shows("─ rows by used memory ─")
    top.press("S", "/", *"h100", "Enter")
    top.shows("─ rows with h100 ─")
    top.hides("   0 host")
    top.press("Escape")
    top.shows("   0 host")
    top.press("h")
    top.shows("  d                               drain the selected row")
    top.press("x")
    top.shows("   1 dummy")
    top.press("Space")
    top.shows(" PAUSED ")
    top.press("Space")
    top.hides(" PAUSED ")


def test_the_mouse(top: Terminal) -> None:
    top.press("End")
    top.shows("─ row 2  ")
    # A press of the first button in column 30 of line 7, as xterm says it.
    top.press("-H", *"1b 5b 4d 20 3e 27".split())
    top.shows("─ row 1  ")
    # The wheel.
    top.press("-H", *"1b 5b 4d 61 3e 27".split())
    top.shows("─ row 2  ")


def test_jobs_are_counted(agent: Agent, top: Terminal) -> None:
    agent.ctl("scatter", "--bytes", "64K", "--rows", "0")
    top.shows("jobs/s")


def test_a_drain_is_confirmed(top: Terminal) -> None:
    top.press("Home", "d")
    top.shows(
        " Drain row 0?  y or n: ends its jobs and memory, 0 sessions, 0 shares"
    )
    top.press("n")
    top.shows(" q quit")
    top.press("d", "y")
    top.shows("   0 host  DRAINING", " drain of row 0: done")
    top.press("d")
    top.shows(" Take row 0 into service again?  y or n")
    top.press("y")
    top.shows("   0 host  READY", " undrain of row 0: done")
    # The agent's refusal is on the screen.
    top.press("Down", "d", "y")
    top.shows(" drain of row 1: ")
    top.hides(" under way")
    top.shows("   1 dummy READY")


# ---- what the terminal has, and has again ------------------------------------


@pytest.mark.parametrize(
    ("number", "ended"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 0)],
)
def test_a_signal_leaves_the_terminal_as_it_was(
    top: Terminal, number: int, ended: int
) -> None:
    top.has_flags("101")
    top.kill(number)
    top.shows(f"ended {ended}\n")
    top.has_flags("010")
    top.hides("dummy")


def test_a_stop_leaves_the_terminal_as_it_was(top: Terminal) -> None:
    top.has_flags("101")
    top.kill(signal.SIGTSTP)
    top.has_flags("010")
    top.shows("ended 148\n")
    top.press("Enter")
    top.has_flags("101")
    top.shows("   1 dummy READY")
    top.press("q")
    top.shows("ended 0\n")
    top.has_flags("010")
    top.hides("dummy")


def test_colours(agent: Agent, tmp_path: Path) -> None:
    def is_coloured() -> bool:
        text = top.text("-e")
        return "\x1b[38;5;" in text or "\x1b[36m" in text

    size = ("COLUMNS=30", "LINES=5")  # are the terminal's, not these
    with Terminal(agent, tmp_path, "NO_COLOR=1", *size) as top:
        top.shows("   1 dummy READY")
        assert not is_coloured() and "\x1b[" in top.text("-e")  # but bold
    with Terminal(agent, tmp_path, "NO_COLOR=") as top:
        top.shows("   1 dummy READY")
        wait_for(is_coloured)
        # Text is not black: it has the terminal's colour.
        assert "\x1b[30m" not in top.text("-e")


def test_a_terminal_of_ascii(agent: Agent, tmp_path: Path) -> None:
    with Terminal(agent, tmp_path, "LC_ALL=C") as top:
        top.shows("   1 dummy READY      ++====")
        assert top.text().isascii()


@pytest.mark.parametrize("term", ["no-such", "dumb"])
def test_a_terminal_that_is_not_known(
    agent: Agent, tmp_path: Path, term: str
) -> None:
    with Terminal(agent, tmp_path, f"TERM={term}") as top:
        top.shows(
            "ended 1\n",
            f'gpumapctl: TERM is "{term}", which is not known here or ',
        )


# ---- once --------------------------------------------------------------------


def test_once(agent: Agent) -> None:
    env = {**agent.env, "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
    lines = agent.run("top", "--once", env=env, check=True).stdout.splitlines()
    assert {KEPT, " no request waits"} < set(lines)
    assert any(line.startswith("   1 dummy READY      ") for line in lines)
    assert any(
        line.endswith(" 30.0 GiB 1 layer, reserved, row 1") for line in lines
    )


def test_json(agent: Agent) -> None:
    got = agent.ctl_json("top")
    assert " ".join(got) == (
        "instance stale age_ns epoch agent_pid agent_version up_s rows"
        " reservations maps sessions shares waits"
    )
    assert " ".join(got["rows"][1]) == (
        "row kind name state reason cordoned numa_node total_bytes used_bytes"
        " session_bytes promised_bytes free_bytes utilisation temperature"
        " power worker_pid restarts jobs jobs_failed"
    )
    assert got["rows"][1]["promised_bytes"] == 30 * GIB
    (kept,) = got["reservations"]
    assert " ".join(kept) == (
        "name since_ns bytes rows start_ns uid user pid command"
    )
    assert len(got["rows"]) == 3 and got["sessions"] == []


def test_no_terminal(agent: Agent) -> None:
    ran = agent.run("top")
    assert ran.returncode == Exit.USAGE and "--once" in ran.stderr


# ---- an agent that dies, and others ------------------------------------------


def test_agents_come_and_go(agent: Agent, top: Terminal) -> None:
    assert agent.process
    top.shows(KEPT)
    agent.kill()
    top.shows(
        " No gpumapd since ", " GONE, start 1 ", "   1 dummy READY", KEPT
    )
    agent.start()
    top.shows(" READY")
    top.hides(" No gpumapd since ")
    # One that ends takes its map along: the next has another.
    agent.process.terminate()
    assert agent.process.wait() == 0
    top.shows(" No gpumapd since ", "   1 dummy")
    agent.start()
    top.hides(" No gpumapd since ")
    top.shows("   0 host  READY")
