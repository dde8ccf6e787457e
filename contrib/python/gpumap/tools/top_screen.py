# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The terminal of gpumapctl top: curses draws the page, and reads keys."""

from __future__ import annotations

import curses
import os
import signal
import threading
import time
from contextlib import suppress

from .. import Error, Map, attach
from .command import Failed
from .top_facts import Facts, History, Reader, is_gone
from .top_keys import Deed, click, press, wheel
from .top_layout import lay_out, panels_of
from .top_page import CHOSEN, Style
from .top_panels import View

KEY_LIMIT = 1.0  # seconds; a signal that comes before a wait is seen then
SIGNALS = signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT

# Attributes without colours, and a colour of 8 and of 256; -1: the terminal's.
STYLES = {
    Style.PLAIN: (0, -1, -1),
    Style.DIM: (curses.A_DIM, -1, 245),
    Style.STRONG: (curses.A_BOLD, -1, -1),
    Style.TITLE: (curses.A_BOLD, curses.COLOR_CYAN, 75),
    Style.OURS: (0, curses.COLOR_CYAN, 75),
    Style.OTHERS: (0, curses.COLOR_BLUE, 103),
    Style.PROMISED: (0, curses.COLOR_YELLOW, 179),
    Style.FREE: (curses.A_DIM, -1, 241),
    Style.GOOD: (0, curses.COLOR_GREEN, 108),
    Style.WARN: (curses.A_BOLD, curses.COLOR_YELLOW, 179),
    Style.BAD: (curses.A_BOLD, curses.COLOR_RED, 203),
    Style.ALARM: (curses.A_BOLD | curses.A_REVERSE, curses.COLOR_RED, 203),
    Style.KEY: (curses.A_BOLD | curses.A_UNDERLINE, curses.COLOR_CYAN, 75),
}
KEYS: dict[str | int, str] = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_PPAGE: "page up",
    curses.KEY_NPAGE: "page down",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_BTAB: "back tab",
    curses.KEY_BACKSPACE: "backspace",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x1b": "escape",
    curses.KEY_ENTER: "enter",
    "\r": "enter",
    "\n": "enter",
}


class Drain:
    """A drain that is under way, or an undrain.

    It takes as long as the row's jobs do, and requests of one attachment wait
    for each other: it has a thread and an attachment of its own.
    """

    def __init__(self, map: Map, row: int, is_back: bool) -> None:
        self.end = ""  # how it has ended, once it has
        self._what = f"{'undrain' if is_back else 'drain'} of row {row}"
        self._names = map.instance, map.runtime_dir
        self._row, self._is_back = row, is_back
        threading.Thread(target=self._run, daemon=True).start()

    def __str__(self) -> str:
        return f"{self._what}: {self.end or 'under way'}"

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with attach(*self._names) as map:
                change = map.undrain if self._is_back else map.drain
                change(self._row)
            self.end = "done"
        except Error as error:
            self.end = error.refusal or str(error.strerror)


class Screen:
    """A node on the terminal, until the user quits."""

    def __init__(self, map: Map, interval: int, is_ascii: bool) -> None:
        self.reader = Reader(map)
        self.interval = interval
        self.history = History()
        self.view = View(80, 24, is_ascii, self.history)
        self.drain: Drain | None = None
        self.panels = panels_of(self.view)  # that were read
        self.facts = self.read()
        self.next = 0.0  # when to read again
        self.caught = 0  # a signal

    # ---- facts --------------------------------------------------------------

    def attach_again(self) -> None:
        """Another agent may have made another map: the name leads to it."""
        old = self.reader.map
        try:
            map = attach(old.instance, old.runtime_dir)
        except Error:
            return
        if is_gone(map.health()):
            map.close()
        else:
            old.close()
            self.reader = Reader(map)

    def read(self, old: Facts | None = None) -> Facts:
        """Read facts; where that fails the last ones stay."""
        if old and old.is_gone:
            self.attach_again()
        self.panels = panels_of(self.view)
        try:
            facts = self.reader.read(self.panels)
        except Error:
            if old is None:
                raise
            old.health, old.time_s = self.reader.map.health(), time.time()
            return old
        if old:
            facts.keep(old)
        self.history.add(facts)
        return facts

    # ---- drawing ------------------------------------------------------------

    def choose_attributes(self) -> None:
        """Choose how each style looks."""
        is_colored = not os.environ.get("NO_COLOR") and curses.has_colors()
        if is_colored:
            curses.start_color()
            curses.use_default_colors()
        self.attributes = {}
        for style, (plain, few, many) in STYLES.items():
            self.attributes[style] = plain
            color = many if is_colored and curses.COLORS >= 256 else few
            if is_colored and color >= 0:
                curses.init_pair(style + 1, color, -1)
                plain &= ~(curses.A_DIM | curses.A_UNDERLINE)
                self.attributes[style] = plain | curses.color_pair(style + 1)

    def attribute(self, style: int) -> int:
        """A selected line has no colours but those of memory."""
        plain = self.attributes[Style(style & ~CHOSEN)]
        is_memory = Style.OURS <= style & ~CHOSEN <= Style.FREE
        if is_memory or not style & CHOSEN:
            return plain
        return curses.A_REVERSE | plain & curses.A_BOLD

    def draw(self) -> None:
        """Draw; curses writes what differs from the last screen."""
        view = self.view
        if self.drain:
            is_over = bool(self.drain.end)
            view.message = str(self.drain)
            if is_over:
                self.drain = None
                self.next = 0  # show the row's state
        view.height, view.width = self.window.getmaxyx()
        lay_out(view, self.facts)
        for y in range(min(len(view.page.lines), view.height)):
            for x, words, style in view.page.runs(y):
                with suppress(curses.error):  # in the last cell
                    self.window.addstr(y, x, words, self.attribute(style))
        with suppress(curses.error):
            self.window.refresh()

    # ---- keys ---------------------------------------------------------------

    def take_mouse(self) -> None:
        """Obey the mouse."""
        try:
            _, x, y, _, buttons = curses.getmouse()
        except curses.error:
            return
        if buttons & (curses.BUTTON1_PRESSED | curses.BUTTON1_CLICKED):
            click(self.view, x, y)
        if buttons & curses.BUTTON4_PRESSED:
            wheel(self.view, x, y, -3)
        if buttons & curses.BUTTON5_PRESSED:
            wheel(self.view, x, y, 3)

    def take_key(self) -> bool:
        """Wait for a key, or until it is time to read.  Return: go on?"""
        limit = 0.1 if self.drain else KEY_LIMIT
        wait = min(max(self.next - time.monotonic(), 0), limit)
        self.window.timeout(int(wait * 1000))
        try:
            got = self.window.get_wch()
        except curses.error:
            return not self.caught and os.isatty(0)
        if got == curses.KEY_MOUSE:
            self.take_mouse()
            return True
        if got in ("r", "\f"):
            self.window.clearok(True)
            self.next = 0
        key = got if isinstance(got, str) else ""
        deed = press(self.view, self.facts, KEYS.get(got, key))
        if deed == Deed.DRAIN:
            row = self.view.row
            if self.drain:
                self.view.message = f"row {row}: another drain is under way"
            else:
                is_back = self.facts.is_drained(row)
                self.drain = Drain(self.reader.map, row, is_back)
        return deed != Deed.QUIT

    # ---- from the start to the end ------------------------------------------

    def open(self) -> None:
        """Take the terminal."""

        def catch(number: int, frame: object) -> None:
            self.caught = number

        for number in SIGNALS:
            signal.signal(number, catch)
        curses.cbreak()
        curses.noecho()
        curses.nonl()
        self.window.keypad(True)
        curses.set_escdelay(50)
        with suppress(curses.error):
            curses.curs_set(0)
        curses.mousemask(
            curses.BUTTON1_PRESSED
            | curses.BUTTON1_CLICKED
            | curses.BUTTON4_PRESSED
            | curses.BUTTON5_PRESSED
        )
        curses.mouseinterval(0)
        self.choose_attributes()

    def loop(self) -> None:
        """Read, draw, and take keys."""
        goes_on = True
        while goes_on and not self.caught:
            now = time.monotonic()
            is_new = self.panels != panels_of(self.view)
            is_time = now >= self.next
            if is_new or self.next == 0 or is_time and not self.view.is_paused:
                self.facts = self.read(self.facts)
            if is_new or is_time:
                self.next = now + self.interval
            self.draw()
            # Another panel is visible: it wants its list at once.
            if self.panels == panels_of(self.view):
                goes_on = self.take_key()

    def show(self) -> None:
        """Show the node; a signal ends the process after the terminal is as it
        was."""
        # They would stay as they are when the size changes.
        for name in "COLUMNS", "LINES":
            os.environ.pop(name, None)
        term = os.environ.get("TERM", "")
        try:
            curses.setupterm()
            if not curses.tigetstr("cup"):
                raise curses.error
            self.window = curses.initscr()
        except curses.error:
            raise Failed(
                f'TERM is "{term}", which is not known here or cannot move its'
                ' cursor: set TERM, to "xterm" for example, or use top --once'
            ) from None
        try:
            self.open()
            self.loop()
        finally:
            with suppress(curses.error):  # the terminal is gone
                curses.endwin()
        if self.caught not in (0, signal.SIGINT):
            signal.signal(self.caught, signal.SIG_DFL)
            os.kill(os.getpid(), self.caught)
