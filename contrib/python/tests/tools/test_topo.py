# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl topo: what it says of node files, of an agent with maps and a mesh,
and of links between cards; and that each row is drawn once, and no text of the
picture lies on another or outside its card.
"""

from __future__ import annotations

import itertools
import json
import operator
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import gpumap
import pytest
from agent import (
    BUILD,
    DRIVER,
    ENV,
    GPUMAPCTL,
    NODES,
    Agent,
    agent_of_cards,
    agent_of_dummies,
    wait_for,
)
from gpumap.tools import text
from gpumap.tools.command import Exit

MIB = 1 << 20


class Box(NamedTuple):
    """In pixels."""

    left: float
    right: float
    top: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def sticks_out(self, card: Box) -> bool:
        """Does it begin in a card, and end outside it?"""
        begins = card.left <= self.left < card.right
        return (
            begins
            and self.bottom > card.top
            and self.top < card.bottom
            and (self.right > card.right or self.bottom > card.bottom)
        )


def check_picture(svg: str, n_rows: int) -> None:
    root = ElementTree.fromstring(svg)
    tag = "{http://www.w3.org/2000/svg}"
    texts, cards = [], []
    for one in root.iter(f"{tag}text"):
        x, y = float(one.attrib["x"]), float(one.attrib["y"])
        # Monospace, 12 pixels: 7.2 wide, 9 above the line, 3 below.
        width = 7.2 * text.columns(one.text or "")
        texts.append(Box(x, x + width, y - 9, y + 3))
    for one in root.iter(f"{tag}rect"):
        if one.get("class") in ("c", "c x"):
            x, y, width, height = (
                float(one.attrib[name])
                for name in ("x", "y", "width", "height")
            )
            cards.append(Box(x, x + width, y, y + height))
    assert sorted(one.attrib["id"] for one in root.iter(f"{tag}g")) == sorted(
        f"row{row}" for row in range(n_rows)
    )
    assert len(cards) == n_rows and len(texts) > 4 * n_rows
    for boxes in texts, cards:
        pairs = itertools.combinations(boxes, 2)
        assert not any(a.overlaps(b) for a, b in pairs)
    assert not any(one.sticks_out(card) for one in texts for card in cards)
    assert root.get("role") == "img"
    assert root.find(f"{tag}title[@id='topo-title']") is not None
    assert "prefers-color-scheme:dark" in svg


def of_file(path: Path, form: str) -> str:
    words = [GPUMAPCTL, "topo", "--node", str(path), "--format", form]
    return subprocess.run(
        words, env=ENV, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


# ---- node files --------------------------------------------------------------

ROW = (
    "row kind name state numa_node pci total_bytes used_bytes promised_bytes"
    " free_bytes maps ranks"
)


stem = operator.attrgetter("stem")


@pytest.mark.parametrize("path", sorted(NODES.glob("*.yaml")), ids=stem)
def test_a_node_file(path: Path) -> None:
    got = json.loads(of_file(path, "json"))
    assert " ".join(got) == "name numa_nodes rows links"
    assert {" ".join(row) for row in got["rows"]} == {ROW}
    n_rows = len(got["rows"])
    check_picture(of_file(path, "svg"), n_rows)
    assert of_file(path, "text").count("\n  row ") == n_rows


LONG = """\
name: one
rows:
- { name: host Intel Xeon Platinum 8480C at 2.00GHz node0/1of2, kind: host,
    cpus: 1, memory: 16G }
"""


def test_a_long_name_keeps_its_end(tmp_path: Path) -> None:
    """Two rows of one machine differ at the end of their names alone."""
    path = tmp_path / "node.yaml"
    path.write_text(LONG)
    svg = of_file(path, "svg")
    assert ">host Intel Xeon Platinum ... node0/1of2<" in svg
    assert ">1 CPU<" in svg
    check_picture(svg, 1)


# ---- an agent ----------------------------------------------------------------

LONG_NAME = "a-name-that-does-not-fit-into-a-card-of-the-picture-at-all"
MAPS = {"model": "1:3;2:4;3:3", LONG_NAME: "2:64", "single": "6:1"}
CONFIG = "".join(
    f"[map {name}]\nspec = {spec}\n" for name, spec in MAPS.items()
)


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    node = (NODES / "eight-gpu.yaml").read_text()
    with agent_of_dummies(node, CONFIG) as one:
        mesh = ("mesh", "publish", "pair", "--topology", "tensor=2")
        one.ctl(*mesh, "--rows", "2,3", "--group", "mine=0")
        yield one


def test_maps_and_ranks(agent: Agent) -> None:
    got = agent.ctl_json("topo")
    assert got["name"] == agent.instance
    row = got["rows"][2]
    assert row["row"] == 2 and len(row["maps"]) == 2
    assert row["maps"][0] == {
        "map": "model",
        "layers": "3-6",
        "n_layers": 4,
        "bytes": 0,
        "committed": False,
    }
    assert row["ranks"] == [{"mesh": "pair", "rank": 0, "groups": "tp_0 mine"}]


def test_formats(agent: Agent) -> None:
    said = agent.ctl("topo")
    assert "    model: layers 3-6\n" in said
    assert "    pair: rank 0 in tp_0 mine\n" in said
    assert "\\nmodel: layers 3-6\\n" in agent.ctl("topo", "--format", "dot")
    page = agent.ctl("topo", "--format", "html")
    assert page.startswith("<!doctype html>\n")
    assert page.endswith("</html>\n")
    assert "model: layers 3-6" in page and "fetch('topo.json'" in page
    svg = agent.ctl("topo", "--format", "svg")
    assert ">model: layers 3-6<" in svg and ">single: layer 0<" in svg
    # A long name leaves the layers their place.
    assert ">a-name-that-does-not-...: layers 0-63<" in svg
    check_picture(svg, 11)


def test_a_promise(agent: Agent, map: gpumap.Map) -> None:
    """It leaves what the node file calls used."""
    with map.reserve({4: 4096 * MIB}):
        row = agent.ctl_json("topo")["rows"][4]
    assert row["promised_bytes"] == 4096 * MIB
    assert row["used_bytes"] == (81559 - 81008) * MIB
    assert row["free_bytes"] == (81008 - 4096) * MIB


def test_a_map_without_an_agent(agent: Agent) -> None:
    assert agent.process
    agent.process.terminate()
    assert agent.process.wait() == 0
    ran = agent.run("topo")
    assert ran.returncode == Exit.OK
    assert "    model: layers 3-6\n" in ran.stdout


# ---- links -------------------------------------------------------------------

# Two NVLinks between the first two cards, one between the next two.
LINKS = ["row 0: link to 1", "row 0: link to 1", "row 2: link to 3"]
CARDS = [
    "NVIDIA GeForce RTX 4090",
    "Tesla T4",
    "NVIDIA A100-SXM4-40GB",
    "Tesla P100-PCIE-16GB",
]
NVLINKS = {(0, 1): 2, (1, 0): 2, (2, 3): 1, (3, 2): 1}


@pytest.mark.skipif(
    not all((BUILD / path).exists() for path in DRIVER),
    reason="the stand-in was not built",
)
def test_links() -> None:
    with (
        agent_of_cards("mixed.yaml", *LINKS) as agent,
        gpumap.attach(agent.instance, agent.runtime_dir) as map,
    ):
        names = [device.name for device in map.devices]
        rows = [names.index(name) for name in CARDS]

        def paths() -> dict[tuple[int, int], tuple[int, gpumap.Peer]]:
            pairs = itertools.permutations(range(4), 2)
            found = {(a, b): map.path(rows[a], rows[b]) for a, b in pairs}
            return {k: (one.nvlinks, one.peer) for k, one in found.items()}

        # The probe tells of them after the rows are READY, one by one.  The bus
        # will do for copies, too.
        reported = gpumap.Peer.REPORTED
        pairs = itertools.permutations(range(4), 2)
        told = {pair: (NVLINKS.get(pair, 0), reported) for pair in pairs}
        wait_for(lambda: paths() == told, paths)
        path = map.path(rows[2], rows[1])
        assert (path.to, path.from_) == (rows[2], rows[1])
        host = names.index(next(n for n in names if n not in CARDS))
        for to, source in ((host, rows[0]), (rows[0], host)):
            path = map.path(to, source)
            assert (path.nvlinks, path.peer) == (0, gpumap.Peer.NONE)
        for to, source in ((5, 0), (0, 5)):
            with pytest.raises(gpumap.NoDevice):
                map.path(to, source)
        check_links_are_drawn(agent, rows)


def check_links_are_drawn(agent: Agent, rows: list[int]) -> None:
    said = agent.ctl("topo")
    for words in "Links between cards", " NV2", " NV1":
        assert words in said
    links: list[dict[str, Any]] = agent.ctl_json("topo")["links"]
    assert {" ".join(link) for link in links} == {"a b path nvlinks"}
    drawn = {(link["a"], link["b"]): link["nvlinks"] for link in links}
    between = {
        (min(rows[a], rows[b]), max(rows[a], rows[b])): n
        for (a, b), n in NVLINKS.items()
    }
    assert {pair: n for pair, n in drawn.items() if n} == between
    svg = agent.ctl("topo", "--format", "svg")
    dot = agent.ctl("topo", "--format", "dot")
    for (a, b), n in between.items():
        assert f"NV{n} {a}" in svg and f"NV{n} {b}" in svg
        assert f'row{a} -- row{b} [label="NV{n}"]' in dot
