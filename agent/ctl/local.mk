# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/ctl: gpumapctl.  It joins with its main():
#   bin_PROGRAMS += %reldir%/gpumapctl
#   %canon_reldir%_gpumapctl_SOURCES = %reldir%/main.c
#   %canon_reldir%_gpumapctl_LDADD = agent/plan/libplan.la \
#	lib/libgpumap.la $(JANSSON_LIBS)
