# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# What wants a real card.  In make check these tests run on the stand-in, which
# tries their logic; make check-gpu, and a bundle, run them on a card.
gm_gpu = %reldir%/gpu/gpu.h tests/contract/contract.h tests/contract/device_code.h \
	tests/support/nvml_abi.h tests/support/tap.h

gm_gpus =
gm_gpus += %reldir%/gpu/machine
%canon_reldir%_gpu_machine_SOURCES = %reldir%/gpu/machine.c $(gm_gpu)
%canon_reldir%_gpu_machine_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_machine_LDADD = tests/libcontract.la -ldl

gm_gpus += %reldir%/gpu/order
%canon_reldir%_gpu_order_SOURCES = %reldir%/gpu/order.c $(gm_gpu)
%canon_reldir%_gpu_order_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_order_LDADD = tests/libcontract.la

gm_gpus += %reldir%/gpu/register
%canon_reldir%_gpu_register_SOURCES = %reldir%/gpu/register.c $(gm_gpu)
%canon_reldir%_gpu_register_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_register_LDADD = tests/libcontract.la

gm_gpus += %reldir%/gpu/ptx_load
%canon_reldir%_gpu_ptx_load_SOURCES = %reldir%/gpu/ptx_load.c $(gm_gpu)
%canon_reldir%_gpu_ptx_load_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_ptx_load_LDADD = tests/libcontract.la agent/cuda/libcu.la -ldl

gm_gpus += %reldir%/gpu/importer_death
%canon_reldir%_gpu_importer_death_SOURCES = %reldir%/gpu/importer_death.c $(gm_gpu)
%canon_reldir%_gpu_importer_death_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_importer_death_LDADD = tests/libcontract.la

gm_gpus += %reldir%/gpu/restart
%canon_reldir%_gpu_restart_SOURCES = %reldir%/gpu/restart.c $(gm_gpu)
%canon_reldir%_gpu_restart_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_restart_LDADD = tests/libcontract.la

gm_gpus += %reldir%/gpu/owner
%canon_reldir%_gpu_owner_SOURCES = %reldir%/gpu/owner.c $(gm_gpu)
%canon_reldir%_gpu_owner_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_owner_LDADD = tests/libcontract.la

gm_gpus += %reldir%/gpu/nccl
%canon_reldir%_gpu_nccl_SOURCES = %reldir%/gpu/nccl.c $(gm_gpu)
%canon_reldir%_gpu_nccl_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_nccl_LDADD = tests/libcontract.la -ldl

# These start gpumapd.
gm_gpu_agent = $(gm_gpu) %reldir%/gpu/agent.h %reldir%/support/driver_copy.h \
	$(gm_story)
gm_gpu_agent_libs = tests/libcontract.la $(gm_story_libs)

gm_gpus += %reldir%/gpu/copies
%canon_reldir%_gpu_copies_SOURCES = %reldir%/gpu/copies.c $(gm_gpu_agent)
%canon_reldir%_gpu_copies_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_copies_LDADD = $(gm_gpu_agent_libs)

gm_gpus += %reldir%/gpu/collective
%canon_reldir%_gpu_collective_SOURCES = %reldir%/gpu/collective.c \
	%reldir%/support/collective_buffers.h $(gm_collective) $(gm_gpu_agent)
%canon_reldir%_gpu_collective_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_collective_LDADD = $(gm_gpu_agent_libs) \
	agent/cuda/libcu.la -lm

gm_gpus += %reldir%/gpu/service
%canon_reldir%_gpu_service_SOURCES = %reldir%/gpu/service.c $(gm_gpu_agent)
%canon_reldir%_gpu_service_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_service_LDADD = $(gm_gpu_agent_libs)

gm_gpus += %reldir%/gpu/mask
%canon_reldir%_gpu_mask_SOURCES = %reldir%/gpu/mask.c $(gm_gpu_agent)
%canon_reldir%_gpu_mask_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_gpu_mask_LDADD = $(gm_gpu_agent_libs) agent/mask/libmask.la \
	agent/plan/libplan.la

gm_tests += $(gm_gpus)

# For contrib/check-gpu.
gm_gpu_programs = $(gm_gpus) $(gm_contracts) tests/contract/cuda_visible_devices \
	tests/contract/operators
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
