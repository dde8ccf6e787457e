# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/plan: pure, no I/O but reading node files.  A program that plans for a
# checkpoint links lib/libcheckpoint.la and shm/libshm.la after it.
noinst_LTLIBRARIES += %reldir%/libplan.la
%canon_reldir%_libplan_la_SOURCES = %reldir%/checked.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/auto.c %reldir%/auto.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/cache.c %reldir%/cache.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/cluster.c %reldir%/cluster.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/cluster_fit.c
%canon_reldir%_libplan_la_SOURCES += %reldir%/cluster_fit.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/dtype.c %reldir%/dtype.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/error.c %reldir%/error.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/file.c %reldir%/file.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/heads.c %reldir%/heads.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/isq.c %reldir%/isq.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/kv.c %reldir%/kv.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/nodefile.c %reldir%/nodefile.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/number.c %reldir%/number.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/pattern.c %reldir%/pattern.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/pipeline.c %reldir%/pipeline.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/place.c %reldir%/place.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/plan.c %reldir%/plan.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/plan_advice.c
%canon_reldir%_libplan_la_SOURCES += %reldir%/plan_charge.c
%canon_reldir%_libplan_la_SOURCES += %reldir%/plan_draft.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/plan_model.c
%canon_reldir%_libplan_la_SOURCES += %reldir%/plan_place.c
%canon_reldir%_libplan_la_SOURCES += %reldir%/rule.c %reldir%/rule.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/size_text.c %reldir%/size_text.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/spec.c %reldir%/spec.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/topology.c %reldir%/topology.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/wide_json.c %reldir%/wide_json.h
%canon_reldir%_libplan_la_SOURCES += %reldir%/yaml.c %reldir%/yaml.h
%canon_reldir%_libplan_la_LIBADD = $(JANSSON_LIBS) $(YAML_LIBS) -lm
