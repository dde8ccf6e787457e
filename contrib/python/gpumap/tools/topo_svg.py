# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The picture and the page of gpumapctl topo.

Lengths are pixels.  Text is monospace: a character is 0.6 of its size wide.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from . import text
from .topo_node import Node, Part, Row

GAP = 12
CARD = 308  # width
COLUMNS = 3
WIDTH = 2 * GAP + GAP + COLUMNS * (CARD + GAP)
LINE = 17
SIZE = 12
CHARS = 39  # of a line in a card
WIDE = (WIDTH - 2 * GAP) * 10 // (6 * SIZE) - 4  # of a line of a NUMA node
BAR = CARD - 2 * GAP
HEAD = 40  # height of the title and the legend
COLORS = 8

STYLE = (
    "text{font:12px monospace;fill:#1b1b1b}"
    ".b{font-weight:bold}"
    ".n{fill:#f4f4f2;stroke:#8a8a86}"
    ".c{fill:#ffffff;stroke:#b9b9b4}"
    ".x{stroke:#b00020;stroke-width:2}"
    ".f{fill:#dfe5e8}.u{fill:#5b6770}.p{fill:#e69f00}"
    ".m0{fill:#0072b2}.m1{fill:#009e73}.m2{fill:#cc79a7}"
    ".m3{fill:#d55e00}.m4{fill:#56b4e9}.m5{fill:#b8a900}"
    ".m6{fill:#7a5195}.m7{fill:#6b6b6b}"
    "@media(prefers-color-scheme:dark){text{fill:#e8e8e4}"
    ".bg{fill:#161616}.n{fill:#1f1f1f;stroke:#6f6f6b}"
    ".c{fill:#292929;stroke:#55554f}.f{fill:#3a4146}.u{fill:#a9b4bb}}"
)

# Where a server serves the page, it asks every few seconds for topo.json, and
# moves bars and texts.  Other rows or other maps need another picture.
SCRIPT = """\
const B=Number(document.currentScript.dataset.bar);
const S=b=>{let u=['B','KiB','MiB','GiB','TiB'],i=0;
while(b>=1024&&i<4){b/=1024;i++}
return(i&&b<100?b.toFixed(1):Math.round(b))+' '+u[i]};
const E=id=>document.getElementById(id);
const K=t=>JSON.stringify(t.rows.map(r=>[r.row,r.name,r.state,r.maps,r.ranks]));
let seen=null;
function show(t){
 if(seen!==null&&K(t)!==seen)
  E('note').textContent='The layout has changed: make the page anew.';
 if(seen===null)seen=K(t);
 for(const r of t.rows){
  const u=E(`r${r.row}u`),p=E(`r${r.row}p`);
  if(!u)continue;
  const w=x=>x/r.total_bytes*B;
  u.setAttribute('width',w(r.used_bytes));
  p.setAttribute('x',+u.getAttribute('x')+w(r.used_bytes));
  p.setAttribute('width',w(r.promised_bytes));
  E(`r${r.row}t`).textContent=
   S(r.used_bytes)+' used, '+S(r.promised_bytes)+' promised';
  E(`r${r.row}f`).textContent=S(r.free_bytes)+' free of '+S(r.total_bytes);
 }
 E('when').textContent='as of '+new Date().toLocaleTimeString();
}
async function ask(){
 try{const a=await fetch('topo.json',{cache:'no-store'});
if(a.ok)show(await a.json())}catch(e){}
}
if(location.protocol.startsWith('http')){ask();setInterval(ask,5000)}
"""


def escaped(words: str) -> str:
    """The text as that of an element."""
    return html.escape(text.printable(words), quote=True).replace("&#x27;", "'")


def line(x: int, y: int, words: str, most: int = CHARS, more: str = "") -> str:
    """A line of text that is cut where it would be wider."""
    words = escaped(text.cut(words, most))
    return f'<text x="{x}" y="{y}"{more}>{words}</text>'


def joined(head: str, rest: str, most: int) -> str:
    """Both texts, the first cut where the second would have no room."""
    return text.cut(head, max(most - text.columns(rest), 8)) + rest


def box(kind: str, x: float, y: int, width: object, height: int) -> str:
    """A rectangle of a class, with its id or a radius behind a blank."""
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}"'
        f' height="{height}"'
    )


def count_lines(row: Row) -> int:
    """Of a card: the row, its name, its place, the bar, and two of memory."""
    return 6 + len(row.parts) + len(row.ranks) + bool(row.links)


def place(row: Row) -> str:
    """The third line of a card."""
    if row.pci:
        mig = "" if row.mig is None else f", MIG {row.mig}"
        return f"PCI {row.pci}{mig}"
    if row.split:
        return "split into instances"
    unit = "CPU" if row.main_memory else "multiprocessor"
    return text.plural(row.units, unit) if row.units else ""


def draw_memory(row: Row, x: int, y: int) -> Iterator[str]:
    """The bar, and two lines."""
    used = row.used / (row.total or 1) * BAR
    promised = row.promised / (row.total or 1) * BAR
    n = row.row
    yield box("f", x, y - 10, BAR, 11) + "/>"
    yield (
        f'<rect class="u" id="r{n}u" x="{x}" y="{y - 10}"'
        f' width="{used:.1f}" height="11"/>'
    )
    yield (
        f'<rect class="p" id="r{n}p" x="{x + used:.1f}" y="{y - 10}"'
        f' width="{promised:.1f}" height="11"/>'
    )
    words = f"{text.size(row.used)} used, {text.size(row.promised)} promised"
    yield line(x, y + LINE, words, more=f' id="r{n}t"')
    words = f"{text.size(row.left)} free of {text.size(row.total)}"
    yield line(x, y + 2 * LINE, words, more=f' id="r{n}f"')


def part_line(part: Part) -> str:
    """Of a map: its name is cut before its layers are."""
    bytes = f", {text.size(part.bytes)}" if part.bytes else ""
    return joined(part.map, f": {part.words}{bytes}", CHARS - 2)


def draw_row(row: Row, x: int, y: int, n_lines: int) -> Iterator[str]:
    """A card."""
    reason = f", {row.reason}" if row.reason else ""
    title = escaped(f"row {row.row}: {row.name}{reason}")
    yield f'<g id="row{row.row}"><title>{title}</title>'
    kind = "c" if row.ready else "c x"
    yield box(kind, x, y, CARD, n_lines * LINE + GAP) + ' rx="4"/>'
    x += GAP
    y += LINE
    state = "" if row.ready else f", {row.state}"
    words = f"row {row.row}, {row.kind}{state}"
    yield line(x, y, words, more=' class="b"')
    # The last word tells host rows apart.
    head, blank, last = row.name.rpartition(" ")
    yield line(x, y + LINE, joined(head, blank + last, CHARS))
    if place(row):
        yield line(x, y + 2 * LINE, place(row))
    yield from draw_memory(row, x, y + 3 * LINE)
    y += 6 * LINE
    for part in row.parts:
        yield box(f"m{part.color % COLORS}", x, y - 9, 10, 10) + "/>"
        yield line(x + 15, y, part_line(part), CHARS - 2, ' data-part=""')
        y += LINE
    for rank in row.ranks:
        yield line(x, y, f"{rank.mesh}: {rank.words}")
        y += LINE
    if row.links:
        yield line(x, y, f"links: {row.links}")
    yield "</g>"


def draw_node(node: Node, numa_node: int, y: int) -> tuple[list[str], int]:
    """A NUMA node with its cards: what draws it, and its height."""
    rows, height = node.on(numa_node), LINE + GAP
    drawn: list[str] = []
    for first in range(0, len(rows), COLUMNS):
        cards = rows[first : first + COLUMNS]
        n_lines = max(count_lines(row) for row in cards)
        for k, row in enumerate(cards):
            x = 2 * GAP + k * (CARD + GAP)
            drawn += draw_row(row, x, y + height, n_lines)
        height += n_lines * LINE + 2 * GAP
    words = node.place_text(numa_node)
    frame = [
        box("n", GAP, y, WIDTH - 2 * GAP, height) + ' rx="6"/>',
        line(2 * GAP, y + LINE, words, WIDE, ' class="b" data-wide=""'),
    ]
    return frame + drawn, height


def legend() -> Iterator[str]:
    """The words for the colors of a bar."""
    x = WIDTH - GAP - 230
    for kind, word in ("u", "used"), ("p", "promised"), ("f", "free"):
        yield box(kind, x, 16, 11, 11) + "/>"
        yield line(x + 16, 26, word)
        x += 16 + len(word) * SIZE * 6 // 10 + 16


def to_svg(node: Node) -> Iterator[str]:
    """The lines of --format svg."""
    drawn: list[str] = []
    y = HEAD
    for numa_node in node.cpus:
        lines, height = draw_node(node, numa_node, y)
        drawn += lines
        y += height + GAP
    rows = text.plural(len(node.rows), "row")
    nodes = text.plural(len(node.cpus), "NUMA node")
    yield (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img"'
        f' aria-labelledby="topo-title topo-desc" width="{WIDTH}"'
        f' height="{y}" viewBox="0 0 {WIDTH} {y}">'
    )
    title = escaped(f"{node.name}: {rows} on {nodes}")
    yield f'<title id="topo-title">{title}</title>'
    yield (
        '<desc id="topo-desc">The rows of each NUMA node, with their memory'
        " and the layers of models that they hold</desc>"
    )
    yield f"<style>{STYLE}</style>"
    yield f'<rect class="bg" fill="#fff" width="{WIDTH}" height="{y}"/>'
    yield line(GAP, 26, node.name, more=' class="b"')
    yield from legend()
    yield from drawn
    yield "</svg>"


def to_html(node: Node) -> Iterator[str]:
    """The lines of --format html: the picture follows topo.json beside it."""
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield '<meta name="color-scheme" content="light dark">'
    yield '<meta name="viewport" content="width=device-width">'
    yield '<link rel="icon" href="data:,">'
    yield "<title>gpumap</title>"
    yield (
        "<style>body{font:12px monospace;margin:12px}"
        "svg{max-width:100%;height:auto}</style>"
    )
    yield "</head>"
    yield "<body>"
    yield from to_svg(node)
    yield '<p id="when"></p>'
    yield '<p id="note" role="status"></p>'
    yield f'<script data-bar="{BAR}">'
    yield from SCRIPT.splitlines()
    yield "</script>"
    yield "</body>"
    yield "</html>"
