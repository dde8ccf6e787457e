# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/doctor: what is wrong with a node, for gpumapctl doctor.
noinst_LTLIBRARIES += %reldir%/libdoctor.la
%canon_reldir%_libdoctor_la_SOURCES =
%canon_reldir%_libdoctor_la_SOURCES += %reldir%/cards.c
%canon_reldir%_libdoctor_la_SOURCES += %reldir%/cluster.c
%canon_reldir%_libdoctor_la_SOURCES += %reldir%/doctor.c %reldir%/doctor.h
%canon_reldir%_libdoctor_la_SOURCES += %reldir%/finding.c %reldir%/finding.h
%canon_reldir%_libdoctor_la_SOURCES += %reldir%/machine.c
%canon_reldir%_libdoctor_la_SOURCES += %reldir%/rows.c
%canon_reldir%_libdoctor_la_SOURCES += %reldir%/service.c
