# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Fixtures: an agent for all tests of a file, an attachment and a session."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import gpumap
import pytest
from agent import Agent, small_model


def pytest_configure() -> None:
    """Give the tests' processes the signals that a shell's "&" ignores."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    one = Agent()
    yield one
    one.stop()


@pytest.fixture
def map(agent: Agent) -> Iterator[gpumap.Map]:
    with gpumap.attach(agent.instance, agent.runtime_dir) as attached:
        yield attached


@pytest.fixture
def session(map: gpumap.Map) -> Iterator[gpumap.Session]:
    with map.session(pollable=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    small_model(folder)
    return folder


# ---- TAP ---------------------------------------------------------------------

_tap: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect a line for each test, for the gate's count."""
    had = _tap.get(report.nodeid, "")
    if report.failed:
        _tap[report.nodeid] = "not ok"
    elif report.skipped and not had.startswith("not"):
        reason = report.longrepr
        text = reason[2] if isinstance(reason, tuple) else str(reason)
        _tap[report.nodeid] = f"ok # SKIP {text.removeprefix('Skipped: ')}"
    elif report.when == "call" and not had:
        _tap[report.nodeid] = "ok"


def pytest_sessionfinish() -> None:
    """Append the lines to the file that GPUMAP_TAP names."""
    path = os.environ.get("GPUMAP_TAP")
    if path is None:
        return
    with open(path, "a") as stream:
        for name, result in _tap.items():
            word, _, skip = result.partition(" # ")
            tail = f" # {skip}" if skip else ""
            shown = " ".join(name.split())
            print(f"{word} - {shown}{tail}", file=stream)
