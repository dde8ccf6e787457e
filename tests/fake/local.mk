# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/fake: what stands in for a driver and its cards, for tests only.  The
# libraries bear the driver's own names, so nothing here is ever installed.
check_LTLIBRARIES += %reldir%/libhardware.la
%canon_reldir%_libhardware_la_SOURCES = \
	%reldir%/hardware.c %reldir%/hardware.h \
	%reldir%/plan.c %reldir%/plan.h

check_LTLIBRARIES += %reldir%/libmachine.la
%canon_reldir%_libmachine_la_SOURCES = %reldir%/machine.c %reldir%/machine.h
%canon_reldir%_libmachine_la_LIBADD = %reldir%/libhardware.la \
	agent/plan/libplan.la

check_PROGRAMS += %reldir%/stand-in
%canon_reldir%_stand_in_SOURCES = %reldir%/stand_in.c \
	%reldir%/linger.c %reldir%/linger.h
%canon_reldir%_stand_in_LDADD = %reldir%/libmachine.la -lpthread

# A real library has a place to be installed at, as far as libtool knows.
gm_stand_in_ldflags = $(AM_LDFLAGS) -rpath /nowhere -version-info 1:0:0 \
	-no-undefined

check_LTLIBRARIES += %reldir%/libcuda.la
%canon_reldir%_libcuda_la_SOURCES = \
	%reldir%/code.h \
	%reldir%/context.c \
	%reldir%/copy.c \
	%reldir%/device.c \
	%reldir%/driver.c %reldir%/driver.h \
	%reldir%/errors.c \
	%reldir%/event.c \
	%reldir%/device_fault.c \
	%reldir%/handles.c \
	%reldir%/kernel.h %reldir%/kernel_table.c \
	%reldir%/lane.c \
	%reldir%/launch.c \
	%reldir%/memop.c \
	%reldir%/memory.c \
	%reldir%/module.c %reldir%/module.h \
	%reldir%/pointer.c \
	%reldir%/ptx.c \
	%reldir%/slow_exit.c \
	%reldir%/space.c \
	%reldir%/stream.c \
	%reldir%/symbols.c \
	%reldir%/visible.c \
	%reldir%/vmm.c
%canon_reldir%_libcuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_libcuda_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%canon_reldir%_libcuda_la_LDFLAGS = $(gm_stand_in_ldflags) \
	-export-symbols-regex '^cu[A-Z]'
%canon_reldir%_libcuda_la_LIBADD = %reldir%/libhardware.la -lpthread -ldl

check_LTLIBRARIES += %reldir%/libnvidia-ml.la
%canon_reldir%_libnvidia_ml_la_SOURCES = \
	%reldir%/nvml.c %reldir%/nvml.h \
	%reldir%/nvml_device.c \
	%reldir%/nvml_event.c \
	%reldir%/nvml_mig.c \
	%reldir%/nvml_path.c \
	tests/support/nvml_abi.h
%canon_reldir%_libnvidia_ml_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%canon_reldir%_libnvidia_ml_la_LDFLAGS = $(gm_stand_in_ldflags) \
	-export-symbols-regex '^nvml[A-Z]'
%canon_reldir%_libnvidia_ml_la_LIBADD = %reldir%/libhardware.la -lpthread

# Linked into programs that use it, and as the library that others open.
check_LTLIBRARIES += %reldir%/libranks.la %reldir%/libnccl.la
%canon_reldir%_libranks_la_SOURCES = \
	%reldir%/nccl.c %reldir%/nccl.h \
	%reldir%/nccl_ops.c \
	%reldir%/nccl_reduce.c \
	%reldir%/nccl_wire.c \
	tests/stubs/nccl.h
%canon_reldir%_libranks_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_libranks_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%canon_reldir%_libranks_la_LIBADD = -lpthread -ldl
%canon_reldir%_libnccl_la_SOURCES =
%canon_reldir%_libnccl_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere \
	-version-info 2:0:0 -no-undefined -export-symbols-regex '^nccl[A-Z]'
%canon_reldir%_libnccl_la_LIBADD = %reldir%/libranks.la

check_LTLIBRARIES += %reldir%/extra-kernels.la
%canon_reldir%_extra_kernels_la_SOURCES = %reldir%/extra_kernels.c
%canon_reldir%_extra_kernels_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%canon_reldir%_extra_kernels_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere \
	-module -avoid-version -no-undefined

# What the driver promises.  The tests run under the command of
# $CONTRACT_UNDER where it is set, and else on what the machine has.
check_LTLIBRARIES += tests/libcontract.la
tests_libcontract_la_SOURCES = tests/contract/contract.c tests/contract/contract.h \
	tests/contract/public_cuda.h tests/contract/send_fd.h tests/contract/device_code.h \
	tests/support/cuda_abi.h tests/support/cuda_symbols.h tests/stubs/cuda.h \
	tests/stubs/cuda_calls.h
tests_libcontract_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_libcontract_la_LIBADD = -ldl

gm_contracts =
gm_contracts += tests/contract/errors
tests_contract_errors_SOURCES = tests/contract/errors.c
tests_contract_errors_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_contract_errors_LDADD = tests/libcontract.la

gm_contracts += tests/contract/vmm
tests_contract_vmm_SOURCES = tests/contract/vmm.c
tests_contract_vmm_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_contract_vmm_LDADD = tests/libcontract.la

gm_contracts += tests/contract/code
tests_contract_code_SOURCES = tests/contract/code.c
tests_contract_code_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_contract_code_LDADD = tests/libcontract.la

gm_contracts += tests/contract/device
tests_contract_device_SOURCES = tests/contract/device.c
tests_contract_device_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_contract_device_LDADD = tests/libcontract.la

gm_contracts += tests/contract/memory
tests_contract_memory_SOURCES = tests/contract/memory.c
tests_contract_memory_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_contract_memory_LDADD = tests/libcontract.la

gm_contracts += tests/contract/nvml
tests_contract_nvml_SOURCES = tests/contract/nvml.c
tests_contract_nvml_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_contract_nvml_LDADD = tests/libcontract.la -ldl

gm_contracts += tests/contract/stream
tests_contract_stream_SOURCES = tests/contract/stream.c
tests_contract_stream_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_contract_stream_LDADD = tests/libcontract.la -lpthread

gm_contracts += tests/contract/versions
tests_contract_versions_SOURCES = tests/contract/versions.c
tests_contract_versions_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_contract_versions_LDADD = tests/libcontract.la

# The stub for <cuda.h> where there is no other.
gm_contracts += tests/contract/import
tests_contract_import_SOURCES = tests/contract/import.c \
	tests/support/segment_file.h tests/support/segment.h
tests_contract_import_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) \
	-idirafter $(srcdir)/tests/stubs
tests_contract_import_LDADD = tests/libcontract.la $(gm_client) -lpthread

gm_tests += $(gm_contracts)
TESTS += tests/contract/split.sh
EXTRA_DIST += tests/contract/split.sh

gm_tests += tests/unit/fake/plan
tests_unit_fake_plan_SOURCES = tests/unit/fake/plan.c tests/support/tap.h
tests_unit_fake_plan_LDADD = %reldir%/libhardware.la -lpthread

gm_tests += tests/unit/fake/faults
tests_unit_fake_faults_SOURCES = tests/unit/fake/faults.c tests/support/fake_machine.h
tests_unit_fake_faults_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_unit_fake_faults_LDADD = tests/libcontract.la %reldir%/libmachine.la \
	-lpthread

gm_tests += tests/unit/fake/mig
tests_unit_fake_mig_SOURCES = tests/unit/fake/mig.c tests/support/fake_machine.h
tests_unit_fake_mig_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_unit_fake_mig_LDADD = tests/libcontract.la %reldir%/libmachine.la \
	-lpthread -ldl

gm_tests += tests/unit/fake/nvml
tests_unit_fake_nvml_SOURCES = tests/unit/fake/nvml.c tests/support/fake_machine.h
tests_unit_fake_nvml_LDADD = %reldir%/libmachine.la -lpthread -ldl
