# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/mesh: ranks, shapes and groups; pure.  Its errors are lib/model/plan's.
noinst_LTLIBRARIES += %reldir%/libmesh.la
%canon_reldir%_libmesh_la_SOURCES = %reldir%/mesh.c %reldir%/mesh.h
