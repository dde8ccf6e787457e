# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/files: what people write in YAML.  A program that links it links
# lib/libplan.la and shm/libshm.la after it.
noinst_LTLIBRARIES += %reldir%/libfiles.la
%canon_reldir%_libfiles_la_SOURCES = %reldir%/file.c %reldir%/file.h
%canon_reldir%_libfiles_la_SOURCES += %reldir%/nodefile_devices.c
%canon_reldir%_libfiles_la_SOURCES += %reldir%/nodefile.c %reldir%/nodefile.h
%canon_reldir%_libfiles_la_SOURCES += %reldir%/pattern.c %reldir%/pattern.h
%canon_reldir%_libfiles_la_SOURCES += %reldir%/topology_file.c
%canon_reldir%_libfiles_la_SOURCES += %reldir%/topology_file.h
%canon_reldir%_libfiles_la_SOURCES += %reldir%/yaml.c %reldir%/yaml.h
%canon_reldir%_libfiles_la_LIBADD = $(YAML_LIBS)
