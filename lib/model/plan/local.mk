# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# lib/model/plan: pure, no I/O and no call of libgpumap.  A program that plans
# for a checkpoint links lib/libcheckpoint.la and shm/libshm.la after it.
noinst_LTLIBRARIES += lib/libplan.la
lib_libplan_la_SOURCES = %reldir%/checked.h
lib_libplan_la_SOURCES += %reldir%/auto.c %reldir%/auto.h
lib_libplan_la_SOURCES += %reldir%/cache.c %reldir%/cache.h
lib_libplan_la_SOURCES += %reldir%/cluster.c %reldir%/cluster.h
lib_libplan_la_SOURCES += %reldir%/cluster_fit.c
lib_libplan_la_SOURCES += %reldir%/cluster_fit.h
lib_libplan_la_SOURCES += %reldir%/dtype.c %reldir%/dtype.h
lib_libplan_la_SOURCES += %reldir%/error.c %reldir%/error.h
lib_libplan_la_SOURCES += %reldir%/heads.c %reldir%/heads.h
lib_libplan_la_SOURCES += %reldir%/isq.c %reldir%/isq.h
lib_libplan_la_SOURCES += %reldir%/kv.c %reldir%/kv.h
lib_libplan_la_SOURCES += %reldir%/number.c %reldir%/number.h
lib_libplan_la_SOURCES += %reldir%/pipeline.c %reldir%/pipeline.h
lib_libplan_la_SOURCES += %reldir%/place.c %reldir%/place.h
lib_libplan_la_SOURCES += %reldir%/plan.c %reldir%/plan.h
lib_libplan_la_SOURCES += %reldir%/plan_advice.c
lib_libplan_la_SOURCES += %reldir%/plan_charge.c
lib_libplan_la_SOURCES += %reldir%/plan_draft.h
lib_libplan_la_SOURCES += %reldir%/plan_model.c
lib_libplan_la_SOURCES += %reldir%/plan_place.c
lib_libplan_la_SOURCES += %reldir%/rule.c %reldir%/rule.h
lib_libplan_la_SOURCES += %reldir%/size_text.c %reldir%/size_text.h
lib_libplan_la_SOURCES += %reldir%/spec.c %reldir%/spec.h
lib_libplan_la_SOURCES += %reldir%/topology.c %reldir%/topology.h
