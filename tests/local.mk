# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests: run by make check.
#
# Each kind of test has a folder, and its local.mk names suites: binaries whose
# cases are the files they are linked from.  The suite of tests/unit/shm is
# tests/suites/unit_shm, and tests/unit/shm/seq.c its case seq:
#
#	make check TESTS=tests/unit/shm/seq.c
#	tests/suites/unit_shm --case seq
#
# A new test is a file with TAP_CASE() and its name in the list of its suite.  A
# file that is also in GM_TORTURE or GM_TSAN_TESTS runs there too.  Tests that
# link or start anything from agent/ stand inside "if AGENT".
LDADD = shm/libshm.la

gm_suites =
gm_tsan_suites =
gm_cases =
gm_replays =
check_LTLIBRARIES =

include $(top_srcdir)/tests/support/local.mk
include $(top_srcdir)/tests/unit/local.mk
if AGENT
include $(top_srcdir)/tests/answers/local.mk
include $(top_srcdir)/tests/fake/local.mk
include $(top_srcdir)/tests/contract/local.mk
include $(top_srcdir)/tests/probe/local.mk
include $(top_srcdir)/tests/system/local.mk
include $(top_srcdir)/tests/cuda/local.mk
include $(top_srcdir)/tests/gpu/local.mk
include $(top_srcdir)/tests/bench/local.mk
endif
include $(top_srcdir)/tests/fuzz/local.mk

EXTRA_DIST += %reldir%/abi/layout.golden
EXTRA_DIST += %reldir%/abi/private.suppr
EXTRA_DIST += %reldir%/caches/README.md
EXTRA_DIST += %reldir%/caches/gguf.json
EXTRA_DIST += %reldir%/caches/models.json
EXTRA_DIST += %reldir%/caches/record
EXTRA_DIST += %reldir%/caches/record-types
EXTRA_DIST += %reldir%/caches/table.py
EXTRA_DIST += %reldir%/caches/types.json
EXTRA_DIST += %reldir%/caches/vllm
EXTRA_DIST += %reldir%/caches/vllm.json
EXTRA_DIST += %reldir%/data/alerts.yaml
EXTRA_DIST += %reldir%/golden
EXTRA_DIST += %reldir%/nodes/a100.yaml
EXTRA_DIST += %reldir%/nodes/b200.yaml
EXTRA_DIST += %reldir%/nodes/cpu-only.yaml
EXTRA_DIST += %reldir%/nodes/eight-gpu.yaml
EXTRA_DIST += %reldir%/nodes/gb200.yaml
EXTRA_DIST += %reldir%/nodes/gb300.yaml
EXTRA_DIST += %reldir%/nodes/halves.yaml
EXTRA_DIST += %reldir%/nodes/l40s.yaml
EXTRA_DIST += %reldir%/nodes/laptop.yaml
EXTRA_DIST += %reldir%/nodes/mixed.yaml
EXTRA_DIST += %reldir%/nodes/scarce.yaml
EXTRA_DIST += %reldir%/nodes/small.yaml
EXTRA_DIST += %reldir%/nodes/split.yaml
EXTRA_DIST += %reldir%/nodes/t4.yaml
EXTRA_DIST += %reldir%/nodes/unified.yaml
EXTRA_DIST += %reldir%/stubs/cuda.h
EXTRA_DIST += %reldir%/stubs/cuda_calls.h

gm_scripts =
gm_scripts += %reldir%/check_tools.sh
gm_scripts += %reldir%/check_cuda_stub.sh
gm_scripts += %reldir%/check_nccl_stub.sh
gm_scripts += %reldir%/check_apparmor.sh
gm_scripts += %reldir%/check_completion.sh
gm_scripts += %reldir%/check_docs.sh
gm_scripts += %reldir%/check_examples.sh
gm_scripts += %reldir%/check_headers.sh
gm_scripts += %reldir%/check_labels.sh
gm_scripts += %reldir%/check_loop.sh
gm_scripts += %reldir%/check_metrics.sh
gm_scripts += %reldir%/check_operators.sh
gm_scripts += %reldir%/check_pages.sh
gm_scripts += %reldir%/check_points.sh
gm_scripts += %reldir%/check_shm_page.sh
gm_scripts += %reldir%/check_shm_pure.sh
gm_scripts += %reldir%/check_structure.sh
gm_scripts += %reldir%/check_symbols.sh
gm_scripts += %reldir%/check_tracepoints.sh
gm_scripts += %reldir%/check_torture.sh
gm_scripts += %reldir%/check_words.sh

if AGENT
gm_scripts += %reldir%/check_answers.sh
gm_scripts += %reldir%/check_gpu.sh
endif

check_PROGRAMS += $(gm_suites) $(gm_replays)
# The scripts first: one of them takes longest, and would run alone at the end.
TESTS += $(gm_scripts) $(gm_cases) $(gm_replays)
EXTRA_DIST += $(gm_scripts) %reldir%/run-case %reldir%/tap.sh
EXTRA_DIST += %reldir%/README.md
EXTRA_DIST += %reldir%/model/run
EXTRA_DIST += %reldir%/model/collective.pml
EXTRA_DIST += %reldir%/model/credit.pml
EXTRA_DIST += %reldir%/model/gang.pml
EXTRA_DIST += %reldir%/model/gang_pair.pml
EXTRA_DIST += %reldir%/model/journal.pml
EXTRA_DIST += %reldir%/model/ledger.pml
EXTRA_DIST += %reldir%/model/park_client.pml
EXTRA_DIST += %reldir%/model/park_worker.pml
EXTRA_DIST += %reldir%/model/publish.pml
EXTRA_DIST += %reldir%/model/relacy/shm/atomic.h
EXTRA_DIST += %reldir%/model/relacy/test.h
EXTRA_DIST += %reldir%/model/relacy_comm.cpp
EXTRA_DIST += %reldir%/model/relacy_ring.cpp
EXTRA_DIST += %reldir%/model/relacy_seq.cpp
EXTRA_DIST += %reldir%/model/rows.pml
EXTRA_DIST += %reldir%/model/share_store.pml
EXTRA_DIST += %reldir%/model/state.pml
EXTRA_DIST += %reldir%/model/told.pml
EXTRA_DIST += %reldir%/model/turn.pml
EXTRA_DIST += %reldir%/model/wait.pml

# Tests load stand-ins by LD_PRELOAD, which parts its paths at blanks.
check_DATA = gm_path
gm_path:
	@case '$(abs_top_builddir)' in *[[:space:]]*) \
	  echo "make check: the path of the build folder has a blank, which" \
	    "LD_PRELOAD does not take: build in another folder" >&2; \
	  exit 1;; \
	esac

TEST_EXTENSIONS = .sh .c
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/contrib/build-aux/tap-driver.sh
LOG_DRIVER_FLAGS = --comments
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_DRIVER_FLAGS = $(LOG_DRIVER_FLAGS)
C_LOG_DRIVER = $(LOG_DRIVER)
C_LOG_DRIVER_FLAGS = $(LOG_DRIVER_FLAGS)
C_LOG_COMPILER = $(SHELL) $(top_srcdir)/%reldir%/run-case

# The environment of a test.  GM_BUILD names what this build is
# instrumented with (asan tsan coverage fuzz testpoints), empty in a plain one.
AM_TESTS_ENVIRONMENT = \
	abs_top_srcdir='$(abs_top_srcdir)'; export abs_top_srcdir; \
	abs_top_builddir='$(abs_top_builddir)'; export abs_top_builddir; \
	GPUMAPD='$(abs_top_builddir)/agent/daemon/gpumapd'; export GPUMAPD; \
	GPUMAP_WORKER='$(abs_top_builddir)/agent/worker/gpumap-worker'; \
	export GPUMAP_WORKER; \
	GPUMAP_PROBE='$(abs_top_builddir)/agent/probe/gpumap-probe'; \
	export GPUMAP_PROBE; \
	GPUMAP_FAKE_NODE='$(abs_top_srcdir)/tests/nodes/mixed.yaml'; \
	export GPUMAP_FAKE_NODE; \
	CONTRACT_UNDER='$(abs_top_builddir)/tests/fake/stand-in run'; \
	export CONTRACT_UNDER; \
	GPUMAPCTL='$(abs_top_builddir)/agent/ctl/gpumapctl'; export GPUMAPCTL; \
	GPUMAP_EXEC_PATH='$(abs_top_builddir)/contrib/python/built'; \
	export GPUMAP_EXEC_PATH; \
	TOOL_PYTHON='$(TOOL_PYTHON)'; export TOOL_PYTHON; \
	GPUMAP_EXPORTER='$(abs_top_builddir)/contrib/python/built/gpumap-exporter'; \
	export GPUMAP_EXPORTER; \
	GPUMAP_SYNC='$(abs_top_builddir)/contrib/python/built/gpumap-sync'; \
	export GPUMAP_SYNC; \
	GPUMAP_FDSTORE='$(abs_top_builddir)/contrib/fdstore/gpumap-fdstore'; \
	export GPUMAP_FDSTORE; \
	CUDA_CPPFLAGS='$(CUDA_CPPFLAGS)'; export CUDA_CPPFLAGS; \
	CC='$(CC)'; export CC; NM='$(NM_PROGRAM)'; export NM; \
	GM_CASES='$(gm_cases)'; export GM_CASES; \
	GM_TORTURE='$(GM_TORTURE)'; export GM_TORTURE; \
	GM_BUILD='$(GM_BUILD)'; export GM_BUILD;

# The stories of make check that kill and stop, in many more rounds: GM_ROUNDS
# says how many, and HOURS=n goes through the list again until n hours are over.
HOURS = 0
check-torture: all
	@$(MAKE) $(AM_MAKEFLAGS) $(gm_suites) $(check_LTLIBRARIES) \
	  tests/support/scripted_probe tests/support/scripted_worker
	@$(AM_TESTS_ENVIRONMENT) \
	GM_ROUNDS=$${GM_ROUNDS-200}; export GM_ROUNDS; \
	TAP_LIMIT=$${TAP_LIMIT-14400}; export TAP_LIMIT; \
	end=$$(($$(date +%s) + $(HOURS) * 3600)); failed=; \
	while :; do \
	  for t in $(GM_TORTURE); do \
	    echo "# $$t, $$GM_ROUNDS rounds"; \
	    $(C_LOG_COMPILER) $$t || failed="$$failed $$t"; \
	  done; \
	  test -z "$$failed" && test $$(date +%s) -lt $$end || break; \
	done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# In a tree configured with --enable-tsan: the tests whose two ends are threads.
check-tsan: $(gm_tsan_suites) $(check_LTLIBRARIES)
	@$(MAKE) $(AM_MAKEFLAGS) check-TESTS check_PROGRAMS= \
	  TESTS='$(GM_TSAN_TESTS)'

# A staged install with every test program beside it, for a machine that has no
# build tools: another kernel, or several NUMA nodes.  There,
# $(pkglibexecdir)/staged/run runs them.
gm_staged = $(DESTDIR)$(pkglibexecdir)/staged
stage: all
	$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS) $(check_LTLIBRARIES)
	$(MAKE) $(AM_MAKEFLAGS) install DESTDIR='$(DESTDIR)'
	$(MKDIR_P) '$(gm_staged)/tests/abi'
	for t in $(check_PROGRAMS); do \
	  $(MKDIR_P) "$(gm_staged)/$$(dirname $$t)" && \
	  $(LIBTOOL) --quiet --mode=install $(INSTALL_PROGRAM) $$t \
	    "$(gm_staged)/$$t" 2>/dev/null || exit 1; \
	done
	cp $(srcdir)/%reldir%/abi/layout.golden '$(gm_staged)/tests/abi'
	$(MKDIR_P) '$(gm_staged)/tests/nodes' '$(gm_staged)/tests/.libs' \
	  '$(gm_staged)/tests/fake/.libs'
	cp $(srcdir)/%reldir%/nodes/*.yaml '$(gm_staged)/tests/nodes'
	cp %reldir%/.libs/*.so '$(gm_staged)/tests/.libs'
	cp %reldir%/fake/.libs/*.so* '$(gm_staged)/tests/fake/.libs'
	$(SED) -e 's|@sbindir[@]|$(sbindir)|; s|@bindir[@]|$(bindir)|' \
	  -e 's|@pkglibexecdir[@]|$(pkglibexecdir)|' \
	  $(srcdir)/%reldir%/staged.in >'$(gm_staged)/run'
	chmod +x '$(gm_staged)/run'
EXTRA_DIST += %reldir%/staged.in

# One JSON object per line.
EXTRA_DIST += %reldir%/bench/run
bench: all
	@$(MAKE) $(AM_MAKEFLAGS) $(GM_BENCH) tests/bench/bench_instance >&2
	@$(AM_TESTS_ENVIRONMENT) \
	for b in $(GM_BENCH); do ./$$b || exit 1; done; \
	$(SHELL) $(srcdir)/%reldir%/bench/run

# The libraries against those of the last release, see .github/CONTRIBUTING.md,
# without the private functions, which each release may change.  Locations stay in
# the record: by them abidiff tells public types from ours.
GM_ABI = $(srcdir)/%reldir%/abi
abi-check: lib/libgpumap.la lib/libgpumap-model.la
	for library in libgpumap libgpumap-model; do \
	  abidiff --drop-private-types --headers-dir2 $(srcdir)/include \
	    --suppressions $(GM_ABI)/private.suppr $(GM_ABI)/$$library.abi \
	    lib/.libs/$$library.so || exit; \
	done
abi-baseline: lib/libgpumap.la lib/libgpumap-model.la
	for library in libgpumap libgpumap-model; do \
	  abidw --exported-interfaces-only --drop-private-types \
	    --no-corpus-path --no-comp-dir-path \
	    --headers-dir $(srcdir)/include \
	    --suppressions $(GM_ABI)/private.suppr \
	    --out-file $(GM_ABI)/$$library.abi lib/.libs/$$library.so || exit; \
	done

format:
	cd $(srcdir) && git ls-files -z '*.c' '*.h' | \
		xargs -0 clang-format -i

.PHONY: check-torture check-tsan check-gpu gm_gpu_programs gm_gpu_install \
	gm_path \
	stage bench fuzz-targets abi-check abi-baseline format
