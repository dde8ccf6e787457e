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
	agent/files/libfiles.la lib/libplan.la shm/libshm.la

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

# A copy's name says what it does.
check_LTLIBRARIES += %reldir%/libvendor.la
%canon_reldir%_libvendor_la_SOURCES = %reldir%/opencl_vendor.c
%canon_reldir%_libvendor_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%canon_reldir%_libvendor_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere -module \
	-avoid-version -export-symbols-regex '^cl[A-Z]'
%canon_reldir%_libvendor_la_LIBADD = -ldl
# The same cards under HIP's names, by the library above.
check_LTLIBRARIES += %reldir%/libamdhip64.la
%canon_reldir%_libamdhip64_la_SOURCES = %reldir%/hip.c \
	tests/support/code_object.c tests/support/code_object.h
%canon_reldir%_libamdhip64_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_libamdhip64_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%canon_reldir%_libamdhip64_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere \
	-version-info 7:0:0 -no-undefined -export-symbols-regex '^hip[A-Z]'
%canon_reldir%_libamdhip64_la_LIBADD = %reldir%/libcuda.la

check_LTLIBRARIES += %reldir%/libnvidia-ptxjitcompiler.la
%canon_reldir%_libnvidia_ptxjitcompiler_la_SOURCES = %reldir%/jit_compiler.c
%canon_reldir%_libnvidia_ptxjitcompiler_la_CFLAGS = $(AM_CFLAGS) \
	-fvisibility=default
%canon_reldir%_libnvidia_ptxjitcompiler_la_LDFLAGS = $(gm_stand_in_ldflags)

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
gm_ranks = \
	%reldir%/nccl.c %reldir%/nccl.h \
	%reldir%/nccl_ops.c \
	%reldir%/nccl_reduce.c \
	%reldir%/nccl_wire.c \
	tests/stubs/nccl.h
%canon_reldir%_libranks_la_SOURCES = $(gm_ranks)
%canon_reldir%_libranks_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_libranks_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%canon_reldir%_libranks_la_LIBADD = -lpthread -ldl
%canon_reldir%_libnccl_la_SOURCES =
%canon_reldir%_libnccl_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere \
	-version-info 2:0:0 -no-undefined -export-symbols-regex '^nccl[A-Z]'
%canon_reldir%_libnccl_la_LIBADD = %reldir%/libranks.la

# The same as AMD's library, for cards of the stand-in under HIP's names.
check_LTLIBRARIES += %reldir%/librccl.la
%canon_reldir%_librccl_la_SOURCES = $(gm_ranks)
%canon_reldir%_librccl_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) -DFAKE_RCCL
%canon_reldir%_librccl_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%canon_reldir%_librccl_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere \
	-version-info 1:0:0 -no-undefined -export-symbols-regex '^nccl[A-Z]'
%canon_reldir%_librccl_la_LIBADD = -lpthread -ldl

check_LTLIBRARIES += %reldir%/extra-kernels.la
%canon_reldir%_extra_kernels_la_SOURCES = %reldir%/extra_kernels.c
%canon_reldir%_extra_kernels_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%canon_reldir%_extra_kernels_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere \
	-module -avoid-version -no-undefined

check_LTLIBRARIES += %reldir%/clock.la
%canon_reldir%_clock_la_SOURCES = %reldir%/clock.c
%canon_reldir%_clock_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%canon_reldir%_clock_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere \
	-module -avoid-version -no-undefined
