# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/probe: gpumap-probe as a program, over the stand-ins.

gm_suites += tests/suites/probe
gm_probe = \
	%reldir%/abuse.c \
	%reldir%/faults.c \
	%reldir%/idle_cards.c \
	%reldir%/mig.c \
	%reldir%/processes.c \
	%reldir%/release.c
tests_suites_probe_SOURCES = $(gm_probe)
tests_suites_probe_LDADD = tests/libsupport.la tests/fake/libmachine.la \
	-lpthread
gm_cases += $(gm_probe)
