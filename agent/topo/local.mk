# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/topo: a node as text, a picture and a page, for gpumapctl topo.
noinst_LTLIBRARIES += %reldir%/libtopo.la
%canon_reldir%_libtopo_la_SOURCES =
%canon_reldir%_libtopo_la_SOURCES += %reldir%/pci_path.c
%canon_reldir%_libtopo_la_SOURCES += %reldir%/topo.c %reldir%/topo.h
%canon_reldir%_libtopo_la_SOURCES += %reldir%/topo_dot.c
%canon_reldir%_libtopo_la_SOURCES += %reldir%/topo_html.c
%canon_reldir%_libtopo_la_SOURCES += %reldir%/topo_json.c
%canon_reldir%_libtopo_la_SOURCES += %reldir%/topo_svg.c
%canon_reldir%_libtopo_la_SOURCES += %reldir%/topo_text.c
