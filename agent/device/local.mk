# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/device: the backends behind device.h, and drivers behind gpu.h.
noinst_LTLIBRARIES += %reldir%/libdevice.la
%canon_reldir%_libdevice_la_SOURCES =
%canon_reldir%_libdevice_la_SOURCES += %reldir%/build_wire.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/cuda.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/cuda.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/cuda_clique.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/cuda_memory.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/device.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/gpu.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_float.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_kernels.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_kernels.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_memory.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_memory.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_reduce.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/host_vec.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/opencl.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/opencl.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/opencl_abi.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/opencl_build.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/opencl_compile.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/opencl_library.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/opencl_memory.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/opencl_program.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/opencl_symbols.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/opencl_work.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/ops_opencl.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/reduce.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/reduce.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/spirv.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/spirv.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_lanes.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_mask.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_memory.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_reduce.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_regions.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/stream_work.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/task.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/task.h
# A fused multiply-add rounds once where others round twice: results would
# depend on the CPU.
%canon_reldir%_libdevice_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
%canon_reldir%_libdevice_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_builddir)
%canon_reldir%_libdevice_la_LIBADD = agent/cuda/libcu.la $(DL_LIBS) -lpthread

# The operators in OpenCL C, as C: a literal for each line.
nodist_%canon_reldir%_libdevice_la_SOURCES = %reldir%/ops_opencl_text.h
%reldir%/ops_opencl_text.h: %reldir%/ops_opencl.h %reldir%/floats.k \
		%reldir%/ops.k
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(SED) -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' \
		$(srcdir)/%reldir%/ops_opencl.h $(srcdir)/%reldir%/floats.k \
		$(srcdir)/%reldir%/ops.k >$@.tmp && mv $@.tmp $@
$(%canon_reldir%_libdevice_la_OBJECTS): %reldir%/ops_opencl_text.h
CLEANFILES += %reldir%/ops_opencl_text.h
EXTRA_DIST += %reldir%/README.md %reldir%/ops.k %reldir%/ops_vulkan.h
EXTRA_DIST += %reldir%/ops_vulkan.sh %reldir%/floats.k
EXTRA_DIST += %reldir%/ops_hip.h %reldir%/ops_hip.sh

# The operators as code objects, as C: an array for each of AMD's instruction
# sets.
if HIP
nodist_%canon_reldir%_libdevice_la_SOURCES += %reldir%/ops_hip_code.h
%reldir%/ops_hip_code.h: %reldir%/ops_hip.sh %reldir%/ops_hip.h \
		%reldir%/ops.k
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(SHELL) $(srcdir)/%reldir%/ops_hip.sh $(HIP_CLANG) "$(HIP_TARGETS)" \
		$(srcdir)/%reldir%/ops_hip.h $(srcdir)/%reldir%/ops.k \
		>$@.tmp && mv $@.tmp $@
gm_hip_driver = %reldir%/libdevice_la-cuda.lo
$(gm_hip_driver): %reldir%/ops_hip_code.h
CLEANFILES += %reldir%/ops_hip_code.h
endif

# The operators as SPIR-V, as C: an array for each module.
if VULKAN
%canon_reldir%_libdevice_la_SOURCES += %reldir%/vulkan.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/vulkan.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/vulkan_library.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/vulkan_memory.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/vulkan_program.c
%canon_reldir%_libdevice_la_SOURCES += %reldir%/vulkan_symbols.h
%canon_reldir%_libdevice_la_SOURCES += %reldir%/vulkan_work.c
nodist_%canon_reldir%_libdevice_la_SOURCES += %reldir%/ops_vulkan_spirv.h
%reldir%/ops_vulkan_spirv.h: %reldir%/ops_vulkan.sh %reldir%/ops_vulkan.h \
		%reldir%/floats.k %reldir%/ops.k
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(SHELL) $(srcdir)/%reldir%/ops_vulkan.sh $(GLSLANG) \
		$(srcdir)/%reldir%/ops_vulkan.h $(srcdir)/%reldir%/floats.k \
		$(srcdir)/%reldir%/ops.k >$@.tmp && mv $@.tmp $@
# By a variable: automake leaves out its own rule for an object that has one.
gm_vulkan_program = %reldir%/libdevice_la-vulkan_program.lo
$(gm_vulkan_program): %reldir%/ops_vulkan_spirv.h
CLEANFILES += %reldir%/ops_vulkan_spirv.h
endif
