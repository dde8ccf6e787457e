# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/answers: the rules that maps, masks and meshes follow, by requests in JSON;
# tests/support/answers is the program.
check_LTLIBRARIES += tests/libanswers.la
tests_libanswers_la_SOURCES = \
	%reldir%/auto.c \
	%reldir%/choose.c \
	%reldir%/fields.c \
	%reldir%/line.c %reldir%/answers.h \
	%reldir%/mask.c \
	%reldir%/mesh.c \
	%reldir%/plan.c \
	%reldir%/providers.c %reldir%/providers.h \
	%reldir%/read.c \
	%reldir%/spec.c \
	%reldir%/split.c \
	%reldir%/topology_choice.c %reldir%/topology_choice.h \
	tests/support/topology_entries.c tests/support/topology_entries.h
tests_libanswers_la_LIBADD = agent/mask/libmask.la \
	agent/files/libfiles.la agent/reader/libreader.la lib/libplan.la \
	agent/mesh/libmesh.la shm/libshm.la $(JANSSON_LIBS)
check_PROGRAMS += tests/support/answers
tests_support_answers_SOURCES = %reldir%/answers.c
tests_support_answers_LDADD = tests/libanswers.la
EXTRA_DIST += %reldir%/README.md
EXTRA_DIST += %reldir%/cases/choose
EXTRA_DIST += %reldir%/cases/mask
EXTRA_DIST += %reldir%/cases/mesh
EXTRA_DIST += %reldir%/cases/plan
EXTRA_DIST += %reldir%/cases/spec
EXTRA_DIST += %reldir%/cases/split
