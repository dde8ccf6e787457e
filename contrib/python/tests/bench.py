# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Times of lookups, by hand: python bench.py INSTANCE RUNTIME_DIR.

Prints one JSON object per measurement, nanoseconds for each operation.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import gpumap


class Empty:
    def method(self, index: int) -> None:
        """A method in Python."""


def best(work: Callable[[], object], n: int) -> float:
    """The least time of several runs, in nanoseconds for each of n."""
    times = []
    for _ in range(9):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    return min(times) / n


def main(instance: str, runtime_dir: str) -> None:
    map = gpumap.attach(instance, runtime_dir)
    map.publish("bench", "0:32768;1:32768")
    layers = map.layers("bench")
    n = 200_000
    numbers = [i % 200 for i in range(n)]

    def loop(call: Callable[[int], object]) -> Callable[[], None]:
        def run() -> None:
            for i in numbers:
                call(i)

        return run

    # One of the interpreter's own C methods with one argument.
    empty = best(loop(frozenset().__contains__), n)
    lookup = best(loop(layers.row), n)
    bulk = best(layers.read, 65536)
    health = best(loop(lambda i: map.generation), n)
    for what, ns in (
        ("empty C method", empty),
        ("empty Python method", best(loop(Empty().method), n)),
        ("layers.row(i)", lookup),
        ("layers.row(i) above an empty C method", lookup - empty),
        ("layers.read(), a layer", bulk),
        ("map.generation in a lambda", health),
    ):
        print(json.dumps({"what": what, "ns": round(ns, 1)}))
    map.release("bench")


if __name__ == "__main__":
    main(*sys.argv[1:])
