# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Read and write the tables of this folder; README.md describes their fields."""
import json
import re
import textwrap

LENGTHS = (1024, 32768, 131072)


def runs(numbers):
    """[0, 1, 2, 5] -> "0-2,5"."""
    out = []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def numbers(chosen):
    """The shortest text for a set of numbers: runs, runs of equal steps, "3-47:4", or
    a run and what it lacks, "0-47!3-47:4"."""
    chosen = sorted(chosen)
    best = stepped(chosen)
    lacking = sorted(set(range(chosen[0], chosen[-1] + 1)) - set(chosen))
    if lacking:
        text = f"{chosen[0]}-{chosen[-1]}!{stepped(lacking)}"
        if len(text) < len(best):
            best = text
    return best


def stepped(chosen):
    best = runs(chosen)
    for step in range(2, 13):
        rest, parts = set(chosen), []
        while rest:
            first = min(rest)
            last = first
            while last + step in rest:
                last += step
            parts.append((first, last))
            rest -= set(range(first, last + 1, step))
        text = ",".join(str(a) if a == b else f"{a}-{b}:{step}" for a, b in parts)
        if len(text) < len(best):
            best = text
    return best


def spread(text):
    """The numbers that numbers() wrote."""
    text, _, lacking = text.partition("!")
    if lacking:
        return sorted(set(spread(text)) - set(spread(lacking)))
    out = []
    for part in text.split(","):
        ends, _, step = part.partition(":")
        first, _, last = ends.partition("-")
        out.extend(range(int(first), int(last or first) + 1, int(step or 1)))
    return out


def fold(shapes):
    """{name: shape} -> {pattern: shape}; the first number of a name varies."""
    groups = {}
    for name, shape in shapes.items():
        found = re.search(r"(?<=\.)\d+(?=\.)", name)
        if found:
            key = (name[:found.start()], name[found.end():], shape)
            groups.setdefault(key, []).append(int(found.group()))
        else:
            groups[(name, None, shape)] = None
    out = {}
    for (head, tail, shape), chosen in groups.items():
        if chosen is None:
            name = head
        elif len(chosen) == 1:
            name = f"{head}{chosen[0]}{tail}"
        else:
            name = f"{head}{{{numbers(chosen)}}}{tail}"
        out[name] = list(shape)
    return out


def unfold(patterns):
    """{pattern: shape} -> {name: shape}."""
    out = {}
    for pattern, shape in patterns.items():
        found = re.search(r"\{(.*?)\}", pattern)
        if not found:
            out[pattern] = shape
            continue
        for n in spread(found.group(1)):
            out[f"{pattern[:found.start()]}{n}{pattern[found.end():]}"] = shape
    return out


def count(layers, n_tokens):
    """The bytes that the caches of all layers hold."""
    total = 0
    for chosen, parts in layers.items():
        held = 0
        for part in parts:
            if "state" in part:
                elements = part["state"]
            else:
                held_tokens = min(n_tokens, part.get("window", n_tokens))
                elements = part["kv"] * (held_tokens // part.get("every", 1))
            held += elements * part.get("size", 2)
        total += held * len(spread(chosen))
    return total


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def save(path, entries):
    """One line per tensor and kind of layer, so that a change reads as one."""
    out = []
    for entry in entries:
        rows = []
        for key, value in entry.items():
            if key in ("tensors", "layers"):
                inner = ",\n".join(f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
                rows.append(f'  "{key}": {{\n{inner}}}')
            else:
                text = f'"{key}": {json.dumps(value)}'
                rows.append("  " + text if isinstance(value, str) else "\n".join(textwrap.wrap(
                    text, 110, initial_indent="  ", subsequent_indent="   ",
                    break_long_words=False, break_on_hyphens=False)))
        out.append(" {\n" + ",\n".join(rows) + "}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(out) + "\n]\n")
