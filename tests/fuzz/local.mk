# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/fuzz: targets.  make check replays corpus/<input> through each; with
# --enable-fuzz they are libFuzzer programs for make fuzz-targets to build and
# for a person to run, on a copy of the corpus that they may add to:
#
#	tests/fuzz/fuzz_spec -max_total_time=60 /tmp/spec tests/fuzz/corpus/spec
gm_fuzz =

if FUZZ
gm_fuzz_main =
gm_fuzz_ldflags = $(AM_LDFLAGS) -fsanitize=fuzzer
else
gm_fuzz_main = %reldir%/replay.c %reldir%/fuzz.h tests/support/tap.c \
	tests/support/tap.h
gm_fuzz_ldflags = $(AM_LDFLAGS)
gm_replays += $(gm_fuzz)
endif

if AGENT
gm_daemon = agent/daemon/libdaemon.la agent/mesh/libmesh.la \
	agent/files/libfiles.la lib/libplan.la agent/cuda/libcu.la \
	agent/common/libcommon.la shm/libshm.la $(NUMA_LIBS) $(URING_LIBS)

gm_fuzz += %reldir%/fuzz_answers
%canon_reldir%_fuzz_answers_SOURCES = %reldir%/fuzz_answers.c \
	%reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_answers_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"answers"'
%canon_reldir%_fuzz_answers_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_answers_LDADD = tests/libanswers.la

gm_fuzz += %reldir%/fuzz_entry
%canon_reldir%_fuzz_entry_SOURCES = %reldir%/fuzz_entry.c \
	%reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_entry_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"entry"'
%canon_reldir%_fuzz_entry_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_entry_LDADD = agent/worker/libworker.la

gm_fuzz += %reldir%/fuzz_mask_tensor
%canon_reldir%_fuzz_mask_tensor_SOURCES = %reldir%/fuzz_mask_tensor.c \
	%reldir%/fuzz_mask.h %reldir%/fuzz_plan.h \
	%reldir%/fuzz_checkpoint.h %reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_mask_tensor_CPPFLAGS = $(AM_CPPFLAGS) \
	-DFUZZ_NAME='"mask_tensor"'
%canon_reldir%_fuzz_mask_tensor_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_mask_tensor_LDADD = agent/mask/libmask.la \
	agent/files/libfiles.la lib/libplan.la lib/libcheckpoint.la shm/libshm.la

gm_fuzz += %reldir%/fuzz_model_table
%canon_reldir%_fuzz_model_table_SOURCES = %reldir%/fuzz_model_table.c \
	%reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_model_table_CPPFLAGS = $(AM_CPPFLAGS) \
	-DFUZZ_NAME='"model_table"'
%canon_reldir%_fuzz_model_table_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_model_table_LDADD = lib/libmodel.la lib/libclient.la \
	shm/libshm.la

gm_fuzz += %reldir%/fuzz_npy
%canon_reldir%_fuzz_npy_SOURCES = %reldir%/fuzz_npy.c \
	%reldir%/fuzz_mask.h %reldir%/fuzz_plan.h %reldir%/fuzz.h \
	$(gm_fuzz_main)
%canon_reldir%_fuzz_npy_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"npy"'
%canon_reldir%_fuzz_npy_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_npy_LDADD = agent/mask/libmask.la \
	agent/files/libfiles.la lib/libplan.la \
	lib/libcheckpoint.la shm/libshm.la

gm_fuzz += %reldir%/fuzz_node
%canon_reldir%_fuzz_node_SOURCES = %reldir%/fuzz_node.c \
	%reldir%/fuzz_plan.h %reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_node_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"node"'
%canon_reldir%_fuzz_node_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_node_LDADD = agent/files/libfiles.la \
	lib/libplan.la shm/libshm.la

gm_fuzz += %reldir%/fuzz_state
%canon_reldir%_fuzz_state_SOURCES = %reldir%/fuzz_state.c \
	tests/support/state_files.h %reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_state_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"state"'
%canon_reldir%_fuzz_state_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_state_LDADD = $(gm_daemon)

gm_fuzz += %reldir%/fuzz_plan
%canon_reldir%_fuzz_plan_SOURCES = %reldir%/fuzz_plan.c \
	%reldir%/fuzz_plan.h %reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_plan_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"plan"'
%canon_reldir%_fuzz_plan_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_plan_LDADD = agent/files/libfiles.la \
	lib/libplan.la shm/libshm.la

gm_fuzz += %reldir%/fuzz_probe
%canon_reldir%_fuzz_probe_SOURCES = %reldir%/fuzz_probe.c \
	%reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_probe_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"probe"'
%canon_reldir%_fuzz_probe_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_probe_LDADD = agent/probe/libprobe.la

gm_fuzz += %reldir%/fuzz_probe_notes
%canon_reldir%_fuzz_probe_notes_SOURCES = %reldir%/fuzz_probe_notes.c \
	%reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_probe_notes_CPPFLAGS = $(AM_CPPFLAGS) \
	-DFUZZ_NAME='"probe_notes"'
%canon_reldir%_fuzz_probe_notes_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_probe_notes_LDADD = $(gm_daemon)

gm_fuzz += %reldir%/fuzz_spec
%canon_reldir%_fuzz_spec_SOURCES = %reldir%/fuzz_spec.c \
	%reldir%/fuzz_plan.h %reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_spec_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"spec"'
%canon_reldir%_fuzz_spec_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_spec_LDADD = lib/libplan.la

gm_fuzz += %reldir%/fuzz_topology
%canon_reldir%_fuzz_topology_SOURCES = %reldir%/fuzz_topology.c \
	tests/support/topology_entries.c tests/support/topology_entries.h \
	%reldir%/fuzz_plan.h %reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_topology_CPPFLAGS = $(AM_CPPFLAGS) \
	-DFUZZ_NAME='"topology"'
%canon_reldir%_fuzz_topology_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_topology_LDADD = agent/files/libfiles.la \
	lib/libplan.la
endif

gm_fuzz += %reldir%/fuzz_gguf
%canon_reldir%_fuzz_gguf_SOURCES = %reldir%/fuzz_gguf.c \
	%reldir%/fuzz_checkpoint.h %reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_gguf_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"gguf"'
%canon_reldir%_fuzz_gguf_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_gguf_LDADD = lib/libcheckpoint.la shm/libshm.la

gm_fuzz += %reldir%/fuzz_index
%canon_reldir%_fuzz_index_SOURCES = %reldir%/fuzz_index.c \
	%reldir%/fuzz_checkpoint.h %reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_index_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"index"'
%canon_reldir%_fuzz_index_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_index_LDADD = lib/libcheckpoint.la shm/libshm.la

gm_fuzz += %reldir%/fuzz_model_config
%canon_reldir%_fuzz_model_config_SOURCES = %reldir%/fuzz_model_config.c \
	%reldir%/fuzz_checkpoint.h %reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_model_config_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"model_config"'
%canon_reldir%_fuzz_model_config_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_model_config_LDADD = lib/libcheckpoint.la shm/libshm.la

gm_fuzz += %reldir%/fuzz_safetensors
%canon_reldir%_fuzz_safetensors_SOURCES = %reldir%/fuzz_safetensors.c \
	%reldir%/fuzz_checkpoint.h %reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_safetensors_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_NAME='"safetensors"'
%canon_reldir%_fuzz_safetensors_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_safetensors_LDADD = lib/libmodel.la lib/libclient.la \
	shm/libshm.la

gm_fuzz += %reldir%/fuzz_segment
%canon_reldir%_fuzz_segment_SOURCES = %reldir%/fuzz_segment.c \
	tests/support/segment.c tests/support/segment.h \
	%reldir%/fuzz.h $(gm_fuzz_main)
%canon_reldir%_fuzz_segment_CPPFLAGS = $(AM_CPPFLAGS) \
	-DFUZZ_NAME='"segment"'
%canon_reldir%_fuzz_segment_LDFLAGS = $(gm_fuzz_ldflags)
%canon_reldir%_fuzz_segment_LDADD = lib/libclient.la shm/libshm.la

if FUZZ
check_PROGRAMS += $(gm_fuzz)
endif

fuzz-targets: $(gm_fuzz)

EXTRA_DIST += %reldir%/corpus %reldir%/safetensors.dict
