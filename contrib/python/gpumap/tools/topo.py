# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl topo: a node as text, a picture or a page.

The node is read from the map and /sys, or from a node file; then it is written
as text, JSON, a graph for Graphviz, or by topo_svg.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import Error, Map
from . import command, text, topo_svg
from .command import Exit, Failed
from .topo_node import Link, Node, Part, Rank, Row

# ---- read ---------------------------------------------------------------------


def read_cpus(rows: Iterable[Row], root: str | None) -> dict[int, str]:
    """The CPUs of the rows' NUMA nodes; those of no node come last."""
    cpus = {}
    nodes = {row.numa_node for row in rows}
    for node in sorted(nodes, key=lambda node: (node < 0, node)):
        path = Path(f"{root}/sys/devices/system/node/node{node}/cpulist")
        try:
            told = path.read_text() if root is not None else ""
            cpus[node] = text.printable(told.partition("\n")[0])
        except OSError:
            cpus[node] = ""
    return cpus


def add_parts(node: Node, map: Map) -> None:
    """Add the layers of each map to the rows that hold them."""
    for color, name in enumerate(map.maps()):
        try:
            info = map.layers(name).read()
        except Error:  # it was released meanwhile
            continue
        layers: dict[int, list[int]] = {}
        for layer, row in enumerate(info.rows):
            layers.setdefault(row, []).append(layer)
        for charge in info.charges:
            held = layers.get(charge.row, [])
            if charge.row < len(node.rows) and (held or charge.bytes):
                node.rows[charge.row].parts.append(
                    Part(
                        map=info.name,
                        color=color,
                        layers=",".join(text.ranges(held)),
                        n_layers=len(held),
                        bytes=charge.bytes,
                        committed=info.committed,
                    )
                )


def add_ranks(node: Node, map: Map) -> None:
    """Add the ranks of each mesh to their rows."""
    for name in map.meshes():
        try:
            mesh = map.mesh(name)
            for rank, row in enumerate(mesh.rows):
                groups = [group.name for group in mesh.groups(rank)]
                if row < len(node.rows):
                    others = " ".join(g for g in groups if g != "world")
                    node.rows[row].ranks.append(Rank(name, rank, others))
        except Error:
            continue


def bridges_of(row: Row, root: str) -> list[str] | None:
    """The bridges between the root of the bus and a device, each below the
    one before: ["pci0000:16", "0000:16:02.0", "0000:17:00.0"]."""
    link = Path(f"{root}/sys/bus/pci/devices/{row.pci}")
    try:
        parts = link.resolve(strict=True).parts
    except OSError:
        return None
    at = [i for i, p in enumerate(parts) if p.startswith("pci") and p != "pci"]
    return list(parts[at[0] :]) if at else None


def path_of(a: Row, b: Row, root: str) -> str | None:
    """How far apart two PCI devices are, in the words of nvidia-smi topo -m.

    PIX, one switch between them; PXB, several; PHB, a host bridge; NODE, host
    bridges of one NUMA node; SYS, several nodes.  None: /sys does not tell.
    """
    one, two = bridges_of(a, root), bridges_of(b, root)
    if one is None or two is None:
        return None
    common = len(os.path.commonprefix([one, two]))
    # Below one switch a port of it is between the last bridge that both have
    # and each device.
    if common >= 2:
        return "PIX" if max(len(one), len(two)) <= common + 2 else "PXB"
    if common == 1:
        return "PHB"
    same = a.numa_node >= 0 and a.numa_node == b.numa_node
    return "NODE" if same else "SYS"


def add_links(node: Node, map: Map, root: str) -> None:
    """Add what is between each two cards."""
    cards = [row for row in node.rows if row.pci]
    for i, a in enumerate(cards):
        for b in cards[i + 1 :]:
            on_bus = a.pci and b.pci and a.mig is None and b.mig is None
            link = Link(
                a.row,
                b.row,
                path_of(a, b, root) if on_bus else None,
                max(
                    map.path(a.row, b.row).nvlinks,
                    map.path(b.row, a.row).nvlinks,
                ),
            )
            if link.text:
                node.links[a.row, b.row] = link
    for row in node.rows:
        others: dict[str, list[str]] = {}
        for other in node.rows:
            found = node.between(row.row, other.row)
            if found:
                others.setdefault(found.text, []).append(str(other.row))
        row.links = "; ".join(
            f"{kind} {','.join(rows)}" for kind, rows in others.items()
        )


def read_map(map: Map, root: str) -> Node:
    """The node of an agent; /sys is below root."""
    rows = [Row.of(device) for device in map.devices]
    node = Node(map.instance, rows, read_cpus(rows, root))
    add_parts(node, map)
    add_ranks(node, map)
    add_links(node, map, root)
    return node


def read_file(path: str) -> Node:
    """The node of a node file, which gpumapctl devices reads."""
    gpumapctl = command.gpumapctl()
    words = [gpumapctl, "devices", "--json", "--node", path]
    try:
        got = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise Failed(f"{gpumapctl}: {error.strerror}") from None
    if got.returncode != 0:
        sys.exit(got.returncode)  # it has said why
    told = json.loads(got.stdout)
    rows = [
        Row(
            row=one["row"],
            kind=one["kind"],
            name=text.printable(one["name"]),
            state=one["state"],
            reason="",
            numa_node=-1 if one["numa_node"] is None else one["numa_node"],
            pci=None,
            mig=None,
            split=one.get("split", False),
            units=one["units"] or 0,
            main_memory=one["main_memory"],
            total=one["total_bytes"],
            used=one["total_bytes"] - one["free_bytes"],
            promised=0,
        )
        for one in told["devices"]
    ]
    name = text.printable(told["name"])
    return Node(name, rows, read_cpus(rows, None))


# ---- write --------------------------------------------------------------------


def row_text(row: Row) -> Iterator[str]:
    """The lines of one row."""
    head = [f"  row {row.row}", row.kind, row.name]
    if row.pci:
        head.append(row.pci)
    if not row.ready:
        head.append(row.state + (f": {row.reason}" if row.reason else ""))
    yield "  ".join(head)
    yield (
        f"    {text.bar(row.used, row.promised, row.total)}"
        f" {text.size(row.used)} used,"
        f" {text.size(row.promised)} promised,"
        f" {text.size(row.left)} free of {text.size(row.total)}"
    )
    for part in row.parts:
        bytes = f", {text.size(part.bytes)}" if part.bytes else ""
        reserved = ", reserved" if part.committed else ""
        yield f"    {part.map}: {part.words}{bytes}{reserved}"
    for rank in row.ranks:
        yield f"    {rank.mesh}: {rank.words}"


def matrix_text(node: Node) -> Iterator[str]:
    """The links of the cards that have any, as a table."""
    cards = [row.row for row in node.rows if row.links]
    yield ""
    yield (
        "Links between cards: NVn so many NVLinks; over PCIe: PIX one switch,"
    )
    yield "PXB several, PHB a host bridge, NODE one NUMA node, SYS several"
    yield ""
    yield "      " + "".join(f" {b:4}" for b in cards)
    for a in cards:
        words = []
        for b in cards:
            link = node.between(a, b)
            words.append("X" if a == b else link.text if link else "-")
        yield f"  {a:4}" + "".join(f" {word:>4}" for word in words)


def to_text(node: Node) -> Iterator[str]:
    """The lines of --format text."""
    yield f"{node.name}: {text.plural(len(node.rows), 'row')}"
    for numa_node in node.cpus:
        yield ""
        yield node.place_text(numa_node)
        for row in node.on(numa_node):
            yield from row_text(row)
    if node.links:
        yield from matrix_text(node)


def quoted(text: str) -> str:
    """The text within double quotes of Graphviz."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def to_dot(node: Node) -> Iterator[str]:
    """The lines of --format dot."""
    yield f'graph "{quoted(node.name)}" {{'
    yield "  node [shape=box, fontname=monospace];"
    for n, numa_node in enumerate(node.cpus):
        yield f"  subgraph cluster_{n} {{"
        yield f'    label="{node.place_text(numa_node)}";'
        for row in node.on(numa_node):
            state = "" if row.ready else f", {row.state}"
            label = [
                f"row {row.row}, {row.kind}{state}",
                quoted(row.name),
                f"{text.size(row.left)} free of {text.size(row.total)}",
                *(f"{quoted(part.map)}: {part.words}" for part in row.parts),
                *(f"{quoted(r.mesh)}: rank {r.rank}" for r in row.ranks),
            ]
            joined = "\\n".join(label)
            yield f'    row{row.row} [label="{joined}"];'
        yield "  }"
    for link in node.links.values():
        yield f'  row{link.a} -- row{link.b} [label="{link.text}"];'
    yield "}"


def to_json(node: Node) -> Iterator[str]:
    """The line of --format json."""
    rows = [
        {
            "row": row.row,
            "kind": row.kind,
            "name": row.name,
            "state": row.state,
            "numa_node": row.numa_node,
            "pci": row.pci,
            "total_bytes": row.total,
            "used_bytes": row.used,
            "promised_bytes": row.promised,
            "free_bytes": row.left,
            "maps": [
                {
                    "map": part.map,
                    "layers": part.layers,
                    "n_layers": part.n_layers,
                    "bytes": part.bytes,
                    "committed": part.committed,
                }
                for part in row.parts
            ],
            "ranks": [rank._asdict() for rank in row.ranks],
        }
        for row in node.rows
    ]
    yield command.to_json(
        {
            "name": node.name,
            "numa_nodes": [
                {"numa_node": numa_node, "cpus": cpus}
                for numa_node, cpus in node.cpus.items()
            ],
            "rows": rows,
            "links": [link._asdict() for link in node.links.values()],
        }
    )


FORMATS = {
    "text": to_text,
    "svg": topo_svg.to_svg,
    "dot": to_dot,
    "html": topo_svg.to_html,
    "json": to_json,
}


def main(words: list[str]) -> int:
    """Draw the node of the agent, or that of a file."""
    parser = command.Parser(
        "topo", "Draw the node: where the layers of each model are."
    )
    parser.add_argument(
        "--format",
        type=command.one_of(FORMATS),
        metavar="|".join(FORMATS),
        help="of the output; text by default",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--node", metavar="FILE", help="a node file to draw")
    source.add_argument(
        "--root", default="", metavar="DIR", help="where /sys is"
    )
    options = parser.parse_args(words)
    write = FORMATS["json" if options.json else options.format or "text"]
    if options.node:
        print("\n".join(write(read_file(options.node))))
        return Exit.OK
    with command.open_map(options) as map:
        print("\n".join(write(read_map(map, options.root))))
        command.warn_of_age(map)
    return Exit.OK
