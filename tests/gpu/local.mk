# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/gpu: what wants a real card.  In make check these tests run on the
# stand-in, which tries their logic; make check-gpu, and a bundle, run them on a
# card.
gm_suites += tests/suites/gpu
gm_gpu = \
	%reldir%/bandwidth.c \
	%reldir%/collective.c \
	%reldir%/copies.c \
	%reldir%/importer_death.c \
	%reldir%/machine.c \
	%reldir%/mask.c \
	%reldir%/nccl.c \
	%reldir%/order.c \
	%reldir%/owner.c \
	%reldir%/ptx_load.c \
	%reldir%/register.c \
	%reldir%/restart.c \
	%reldir%/service.c \
	%reldir%/slow_calls.c
tests_suites_gpu_SOURCES = $(gm_gpu) %reldir%/agent.h %reldir%/gpu.h
tests_suites_gpu_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) \
	-idirafter $(srcdir)/tests/stubs
tests_suites_gpu_LDADD = tests/libcontract.la tests/libsupport.la \
	lib/libgpumap.la agent/mask/libmask.la lib/libplan.la \
	agent/mesh/libmesh.la tests/libptx.la agent/worker/libworker.la \
	agent/device/libdevice.la agent/common/libcommon.la \
	agent/cuda/libcu.la -ldl -lm -lpthread
gm_cases += $(gm_gpu)

# For contrib/check-gpu.
gm_gpu_programs = tests/suites/gpu tests/suites/contract
gm_gpu_programs: $(gm_gpu_programs)

# All that a bundle needs, into $(DESTDIR)/bin and $(DESTDIR)/lib: files alone,
# for the way there may lose links.
gm_gpu_install: all
	$(MAKE) $(AM_MAKEFLAGS) gm_gpu_programs
	$(MKDIR_P) '$(DESTDIR)/bin' '$(DESTDIR)/lib'
	for p in $(bin_PROGRAMS) $(sbin_PROGRAMS) $(pkglibexec_PROGRAMS) \
	  $(gm_gpu_programs); do \
	  cp "$$(test -x $$(dirname $$p)/.libs/$$(basename $$p) && \
	    echo $$(dirname $$p)/.libs/$$(basename $$p) || echo $$p)" \
	    '$(DESTDIR)/bin' || exit 1; \
	done
	cp -L lib/.libs/libgpumap*.so.[0-9] '$(DESTDIR)/lib'

# CHECK_GPU holds options and tests, as contrib/check-gpu takes them.
CHECK_GPU =
check-gpu: all
	@$(MAKE) $(AM_MAKEFLAGS) gm_gpu_programs $(check_LTLIBRARIES) \
	  tests/fake/stand-in
	@$(AM_TESTS_ENVIRONMENT) \
	$(SHELL) $(top_srcdir)/contrib/check-gpu $(CHECK_GPU)
