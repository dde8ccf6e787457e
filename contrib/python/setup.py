# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Build the package gpumap, with the client libraries of this tree inside.

GPUMAP_SYSTEM_LIB=1 links the installed libgpumap and libgpumap-model instead.
"""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
# A source distribution has a copy of the parts of the tree that it needs.
COPIED = HERE / "tree"
TREE = COPIED if COPIED.is_dir() else HERE.parent.parent
PARTS = ["include", "lib", "shm"]
FILES = ["configure.ac", "LICENSES/MIT.txt"]
SYSTEM_LIB = os.environ.get("GPUMAP_SYSTEM_LIB") == "1"
FLAGS = ["-std=gnu11", "-fvisibility=hidden", "-D_GNU_SOURCE", "-g0"]
# Functions that nothing here calls stay out, such as those that plan nodes.
FLAGS += ["-ffunction-sections", "-fdata-sections"]


def version():
    text = (TREE / "configure.ac").read_text()
    release = re.search(r"\[gm_version\], \[([^]]+)\]", text).group(1)
    return release.replace("~dev", ".dev0")


def library_sources():
    found = [*(TREE / "lib").rglob("*.c"), *(TREE / "shm").rglob("*.c")]
    # Test points are of builds for tests.
    return sorted(str(f) for f in found if f.name != "point.c")


def pkg_config(option):
    command = ["pkg-config", option, "gpumap-model"]
    return subprocess.check_output(command, text=True).split()


class BuildExt(build_ext):
    """Compiles the sources of an extension side by side."""

    def build_extension(self, ext):
        sources = list(ext.sources)
        if not SYSTEM_LIB:
            sources += library_sources()

        def compile_one(source):
            return self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                include_dirs=ext.include_dirs,
                extra_postargs=ext.extra_compile_args,
                macros=ext.define_macros,
                debug=self.debug,
            )

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for objects in pool.map(compile_one, sources):
                ext.extra_objects += objects
        ext.sources = []
        self.force = True  # it would find no source that is newer
        super().build_extension(ext)


class Sdist(sdist):
    """Takes the client library's sources along, below tree/."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for source in (HERE / "core").iterdir():
            shutil.copyfile(source, Path(base_dir, "core", source.name))
        target = Path(base_dir, "tree")
        if target.is_dir():
            return
        for part in PARTS:
            for source in sorted((TREE / part).rglob("*.[ch]")):
                copy = target / source.relative_to(TREE)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
        for file in FILES:
            copy = target / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TREE / file, copy)
        shutil.copyfile(TREE / "LICENSES/MIT.txt", Path(base_dir, "LICENSE"))


def licence():
    # Wheels take a licence from beside this file only.
    path = HERE / "LICENSE"
    if not path.exists():
        shutil.copyfile(TREE / "LICENSES/MIT.txt", path)


licence()
core = Extension(
    "gpumap._core",
    sources=[f"core/{f.name}" for f in sorted((HERE / "core").glob("*.c"))],
    include_dirs=["core"],
    define_macros=[("Py_LIMITED_API", "0x030b0000")],
    extra_compile_args=FLAGS + os.environ.get("GPUMAP_CFLAGS", "").split(),
    extra_link_args=[
        f"-Wl,--version-script={HERE / 'core/core.map'}",
        "-Wl,--gc-sections",
    ]
    + os.environ.get("GPUMAP_LDFLAGS", "").split(),
    py_limited_api=True,
)
if SYSTEM_LIB:
    core.extra_compile_args += pkg_config("--cflags")
    core.extra_link_args += pkg_config("--libs")
else:
    core.include_dirs += [str(TREE / "include"), str(TREE)]

setup(
    version=version(),
    ext_modules=[core],
    cmdclass={"build_ext": BuildExt, "sdist": Sdist},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
