# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/device: one backend per file, behind device.h.
noinst_LTLIBRARIES += %reldir%/libdevice.la
%canon_reldir%_libdevice_la_SOURCES =
