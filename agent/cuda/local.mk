# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/cuda: the driver, NVML and NCCL, opened at run time.  Always compiled in: no
# toolkit is needed, at build time or later.
noinst_LTLIBRARIES += %reldir%/libcu.la
%canon_reldir%_libcu_la_SOURCES =
%canon_reldir%_libcu_la_SOURCES += %reldir%/abi.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/cuerror.c %reldir%/cuerror.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/driver.c %reldir%/driver.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/driver_symbols.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/library.c %reldir%/library.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/nccl.c %reldir%/nccl.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/nccl_symbols.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/nvml.c %reldir%/nvml.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/nvml_symbols.h
%canon_reldir%_libcu_la_LIBADD = shm/libshm.la $(DL_LIBS)
%canon_reldir%_libcu_la_SOURCES += %reldir%/operators.c %reldir%/operators.h
nodist_%canon_reldir%_libcu_la_SOURCES = %reldir%/operators_ptx.h
%canon_reldir%_libcu_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_builddir)

# The PTX as C: a literal for each line.
%reldir%/operators_ptx.h: %reldir%/operators.ptx
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(SED) -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' \
		$(srcdir)/%reldir%/operators.ptx >$@.tmp && mv $@.tmp $@
$(%canon_reldir%_libcu_la_OBJECTS): %reldir%/operators_ptx.h
CLEANFILES += %reldir%/operators_ptx.h
EXTRA_DIST += %reldir%/operators.ptx %reldir%/operators.sh %reldir%/ptx.sh
