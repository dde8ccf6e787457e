# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/contract: what the driver promises.  The tests run under the command of
# $CONTRACT_UNDER where it is set, and else on what the machine has.
check_LTLIBRARIES += tests/libcontract.la
tests_libcontract_la_SOURCES = \
	%reldir%/contract.c %reldir%/contract.h \
	%reldir%/device_code.h %reldir%/public_cuda.h %reldir%/send_fd.h
tests_libcontract_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_libcontract_la_LIBADD = -ldl

# The stub for <cuda.h> where there is no other.
gm_suites += tests/suites/contract
gm_contract = \
	%reldir%/code.c \
	%reldir%/cuda_visible_devices.c \
	%reldir%/device.c \
	%reldir%/errors.c \
	%reldir%/import.c \
	%reldir%/memory.c \
	%reldir%/nvml.c \
	%reldir%/operators.c \
	%reldir%/stream.c \
	%reldir%/versions.c \
	%reldir%/vmm.c
tests_suites_contract_SOURCES = $(gm_contract)
tests_suites_contract_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) \
	-idirafter $(srcdir)/tests/stubs
tests_suites_contract_LDADD = tests/libcontract.la tests/libsupport.la \
	lib/libclient.la tests/libptx.la agent/cuda/libcu.la shm/libshm.la \
	$(DL_LIBS) -lpthread -lm
gm_cases += $(gm_contract)
TESTS += %reldir%/split.sh
EXTRA_DIST += %reldir%/split.sh
