# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/cuda: the driver and NVML, opened at run time.  Always compiled in: no
# toolkit is needed, at build time or later.
noinst_LTLIBRARIES += %reldir%/libcu.la
%canon_reldir%_libcu_la_SOURCES =
%canon_reldir%_libcu_la_SOURCES += %reldir%/abi.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/cuerror.c %reldir%/cuerror.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/driver.c %reldir%/driver.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/driver_symbols.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/library.c %reldir%/library.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/nvml.c %reldir%/nvml.h
%canon_reldir%_libcu_la_SOURCES += %reldir%/nvml_symbols.h
%canon_reldir%_libcu_la_LIBADD = $(DL_LIBS)
