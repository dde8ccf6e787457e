# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/mask: pure.  A program that checks a mask links lib/libplan.la after it,
# and one that reads a mask's file agent/files/libfiles.la before that and
# lib/libcheckpoint.la; one that only fills a mask needs nothing else.
noinst_LTLIBRARIES += %reldir%/libmask.la
%canon_reldir%_libmask_la_SOURCES = %reldir%/mask.c %reldir%/mask.h
%canon_reldir%_libmask_la_SOURCES += %reldir%/mask_fill.c
%canon_reldir%_libmask_la_SOURCES += %reldir%/mask_tensor.c
%canon_reldir%_libmask_la_SOURCES += %reldir%/mask_tensor.h
%canon_reldir%_libmask_la_SOURCES += %reldir%/npy.c %reldir%/npy.h
%canon_reldir%_libmask_la_SOURCES += %reldir%/picture.c %reldir%/picture.h
%canon_reldir%_libmask_la_LIBADD =
