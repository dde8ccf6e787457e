# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/plan: pure, no I/O but reading models.
noinst_LTLIBRARIES += %reldir%/libplan.la
%canon_reldir%_libplan_la_SOURCES = \
	%reldir%/checkpoint.c %reldir%/checkpoint.h \
	%reldir%/error.c %reldir%/error.h \
	%reldir%/file.c %reldir%/file.h \
	%reldir%/model_config.c %reldir%/model_config.h \
	%reldir%/placement.c %reldir%/placement.h \
	%reldir%/safetensors.c %reldir%/safetensors.h \
	%reldir%/spec.c %reldir%/spec.h \
	%reldir%/stack.c %reldir%/stack.h
%canon_reldir%_libplan_la_LIBADD = $(JANSSON_LIBS)
