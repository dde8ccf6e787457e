# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# What wants a real card.  In make check these tests run on the stand-in, which
# tries their logic; make check-gpu, and a bundle, run them on a card.
gm_gpu = %reldir%/gpu.h tests/contract.h tests/contract_kernels.h \
	tests/nvml_abi.h tests/tap.h

gm_gpus =
gm_gpus += %reldir%/gpu_first
%canon_reldir%_gpu_first_SOURCES = %reldir%/gpu_first.c $(gm_gpu)
%canon_reldir%_gpu_first_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_first_LDADD = tests/libcontract.la -ldl

gm_gpus += %reldir%/gpu_order
%canon_reldir%_gpu_order_SOURCES = %reldir%/gpu_order.c $(gm_gpu)
%canon_reldir%_gpu_order_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_order_LDADD = tests/libcontract.la

gm_gpus += %reldir%/gpu_register
%canon_reldir%_gpu_register_SOURCES = %reldir%/gpu_register.c $(gm_gpu)
%canon_reldir%_gpu_register_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_register_LDADD = tests/libcontract.la

gm_gpus += %reldir%/gpu_load
%canon_reldir%_gpu_load_SOURCES = %reldir%/gpu_load.c $(gm_gpu)
%canon_reldir%_gpu_load_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_load_LDADD = tests/libcontract.la agent/cuda/libcu.la -ldl

gm_gpus += %reldir%/gpu_death
%canon_reldir%_gpu_death_SOURCES = %reldir%/gpu_death.c $(gm_gpu)
%canon_reldir%_gpu_death_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_death_LDADD = tests/libcontract.la

gm_gpus += %reldir%/gpu_revival
%canon_reldir%_gpu_revival_SOURCES = %reldir%/gpu_revival.c $(gm_gpu)
%canon_reldir%_gpu_revival_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_revival_LDADD = tests/libcontract.la

gm_gpus += %reldir%/gpu_owner
%canon_reldir%_gpu_owner_SOURCES = %reldir%/gpu_owner.c $(gm_gpu)
%canon_reldir%_gpu_owner_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_owner_LDADD = tests/libcontract.la

gm_gpus += %reldir%/gpu_nccl
%canon_reldir%_gpu_nccl_SOURCES = %reldir%/gpu_nccl.c $(gm_gpu)
%canon_reldir%_gpu_nccl_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_nccl_LDADD = tests/libcontract.la -ldl

# These start gpumapd.
gm_gpu_agent = $(gm_gpu) %reldir%/gpu_agent.h %reldir%/driver_copy.h \
	$(gm_story)
gm_gpu_agent_libs = tests/libcontract.la $(gm_story_libs)

gm_gpus += %reldir%/gpu_copies
%canon_reldir%_gpu_copies_SOURCES = %reldir%/gpu_copies.c $(gm_gpu_agent)
%canon_reldir%_gpu_copies_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_copies_LDADD = $(gm_gpu_agent_libs)

gm_gpus += %reldir%/gpu_collective
%canon_reldir%_gpu_collective_SOURCES = %reldir%/gpu_collective.c \
	%reldir%/collective_cards.h $(gm_collective) $(gm_gpu_agent)
%canon_reldir%_gpu_collective_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_collective_LDADD = $(gm_gpu_agent_libs) \
	agent/cuda/libcu.la -lm

gm_gpus += %reldir%/gpu_service
%canon_reldir%_gpu_service_SOURCES = %reldir%/gpu_service.c $(gm_gpu_agent)
%canon_reldir%_gpu_service_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_service_LDADD = $(gm_gpu_agent_libs)

gm_gpus += %reldir%/gpu_mask
%canon_reldir%_gpu_mask_SOURCES = %reldir%/gpu_mask.c $(gm_gpu_agent)
%canon_reldir%_gpu_mask_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_mask_LDADD = $(gm_gpu_agent_libs) agent/mask/libmask.la \
	agent/plan/libplan.la

gm_tests += $(gm_gpus)

# For contrib/check-gpu.
gm_gpu_programs = $(gm_gpus) $(gm_contracts) tests/contract_visible \
	tests/contract_operators
gm_gpu_programs: $(gm_gpu_programs)

# All that a bundle needs, into $(DESTDIR)/bin and $(DESTDIR)/lib.
gm_gpu_install: all
	$(MAKE) $(AM_MAKEFLAGS) gm_gpu_programs
	$(MKDIR_P) '$(DESTDIR)/bin' '$(DESTDIR)/lib'
	for p in $(bin_PROGRAMS) $(sbin_PROGRAMS) $(pkglibexec_PROGRAMS) \
	  $(gm_gpu_programs); do \
	  cp "$$(test -x $$(dirname $$p)/.libs/$$(basename $$p) && \
	    echo $$(dirname $$p)/.libs/$$(basename $$p) || echo $$p)" \
	    '$(DESTDIR)/bin' || exit 1; \
	done
	cp -P lib/.libs/libgpumap.so.* '$(DESTDIR)/lib'

# CHECK_GPU holds options and runs, as contrib/check-gpu takes them.
CHECK_GPU =
check-gpu: all
	@$(MAKE) $(AM_MAKEFLAGS) gm_gpu_programs $(check_LTLIBRARIES) \
	  tests/fake/stand-in
	@$(AM_TESTS_ENVIRONMENT) \
	$(SHELL) $(top_srcdir)/contrib/check-gpu $(CHECK_GPU)
