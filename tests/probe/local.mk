# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/probe: gpumap-probe and its watchers, over the stand-ins.

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
	agent/daemon/libdaemon.la agent/files/libfiles.la lib/libplan.la \
	agent/mesh/libmesh.la agent/cuda/libcu.la agent/common/libcommon.la \
	shm/libshm.la $(SECCOMP_LIBS) $(NUMA_LIBS) $(URING_LIBS) -lpthread
gm_cases += $(gm_probe)
