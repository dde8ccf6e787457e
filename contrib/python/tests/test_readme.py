# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The examples of the READMEs run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from agent import Agent, small_model

TOP = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["README.md", "contrib/python/README.md"])
def test_example(page: str, agent: Agent, tmp_path: Path) -> None:
    text = (TOP / page).read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert examples
    small_model(tmp_path / "llama")
    for example in examples:
        code = example.replace(
            "gpumap.attach()",
            f"gpumap.attach({agent.instance!r}, {str(agent.runtime_dir)!r})",
        ).replace("/models/", f"{tmp_path}/")
        assert agent.instance in code
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout and not ran.stderr
