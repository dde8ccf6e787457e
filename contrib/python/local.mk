# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/python: the Python package, which setuptools builds for Python's users; and
# the commands of gpumapctl that are written in Python, with a package of their own
# in $(pkglibdir)/python.
EXTRA_DIST += %reldir%/README.md
EXTRA_DIST += %reldir%/build-wheel
EXTRA_DIST += %reldir%/check
EXTRA_DIST += %reldir%/core/core.map
EXTRA_DIST += %reldir%/gpumap/_core.pyi
EXTRA_DIST += %reldir%/gpumap/py.typed
EXTRA_DIST += %reldir%/pyproject.toml
EXTRA_DIST += %reldir%/setup.py
EXTRA_DIST += %reldir%/tests/agent.py
EXTRA_DIST += %reldir%/tests/row_cases.py
EXTRA_DIST += %reldir%/tests/bench.py
EXTRA_DIST += %reldir%/tests/bench_load.py
EXTRA_DIST += %reldir%/tests/conftest.py
EXTRA_DIST += %reldir%/tests/test_arrays.py
EXTRA_DIST += %reldir%/tests/test_bad_input.py
EXTRA_DIST += %reldir%/tests/test_caches.py
EXTRA_DIST += %reldir%/tests/test_cards.py
EXTRA_DIST += %reldir%/tests/fake_sglang.py
EXTRA_DIST += %reldir%/tests/fake_vllm.py
EXTRA_DIST += %reldir%/tests/tools/test_calibrate.py
EXTRA_DIST += %reldir%/tests/tools/test_cluster_tool.py
EXTRA_DIST += %reldir%/tests/tools/test_doctor.py
EXTRA_DIST += %reldir%/tests/tools/test_doctor_agent.py
EXTRA_DIST += %reldir%/tests/test_engines.py
EXTRA_DIST += %reldir%/tests/test_cluster.py
EXTRA_DIST += %reldir%/tests/test_errors.py
EXTRA_DIST += %reldir%/tests/test_export.py
EXTRA_DIST += %reldir%/tests/test_leaks.py
EXTRA_DIST += %reldir%/tests/test_map.py
EXTRA_DIST += %reldir%/tests/test_meshes.py
EXTRA_DIST += %reldir%/tests/test_minilm.py
EXTRA_DIST += %reldir%/tests/test_model.py
EXTRA_DIST += %reldir%/tests/test_readme.py
EXTRA_DIST += %reldir%/tests/test_reports.py
EXTRA_DIST += %reldir%/tests/test_session.py
EXTRA_DIST += %reldir%/tests/test_smollm2.py
EXTRA_DIST += %reldir%/tests/tools/test_exporter.py
EXTRA_DIST += %reldir%/tests/tools/test_tools.py
EXTRA_DIST += %reldir%/tests/tools/test_top.py
EXTRA_DIST += %reldir%/tests/tools/test_top_terminal.py
EXTRA_DIST += %reldir%/tests/tools/test_topo.py
EXTRA_DIST += %reldir%/tests/tools/test_trace_file.py
EXTRA_DIST += %reldir%/tests/nodes.py
EXTRA_DIST += %reldir%/tests/tools/test_sync.py
EXTRA_DIST += %reldir%/tests/tools/test_sync_gangs.py
EXTRA_DIST += %reldir%/tests/tools/test_sync_nodes.py
EXTRA_DIST += %reldir%/tests/tools/test_sync_store.py
EXTRA_DIST += %reldir%/tests/tools/world.py
EXTRA_DIST += %reldir%/tests/test_torch.py
EXTRA_DIST += %reldir%/tests/test_torchrun.py
EXTRA_DIST += %reldir%/tests/test_trace.py
EXTRA_DIST += %reldir%/tests/test_hip.py
EXTRA_DIST += %reldir%/tests/test_vendors.py
EXTRA_DIST += %reldir%/try-vllm

# The package.
gm_core = \
	%reldir%/core/arena.c \
	%reldir%/core/call.c \
	%reldir%/core/cluster.c \
	%reldir%/core/comm.c \
	%reldir%/core/core.h \
	%reldir%/core/dlpack.c \
	%reldir%/core/fields.c \
	%reldir%/core/jobs.c \
	%reldir%/core/layers.c \
	%reldir%/core/lists.c \
	%reldir%/core/map.c \
	%reldir%/core/mask.c \
	%reldir%/core/meshes.c \
	%reldir%/core/model.c \
	%reldir%/core/module.c \
	%reldir%/core/pool.c \
	%reldir%/core/requests.c \
	%reldir%/core/session.c \
	%reldir%/core/tensor.c \
	%reldir%/core/trace.c
gm_package = \
	%reldir%/gpumap/__init__.py \
	%reldir%/gpumap/aio.py \
	%reldir%/gpumap/checkpoint.py \
	%reldir%/gpumap/comm.py \
	%reldir%/gpumap/engine.py \
	%reldir%/gpumap/enums.py \
	%reldir%/gpumap/errors.py \
	%reldir%/gpumap/export.py \
	%reldir%/gpumap/facts.py \
	%reldir%/gpumap/hf.py \
	%reldir%/gpumap/jax.py \
	%reldir%/gpumap/map.py \
	%reldir%/gpumap/mask.py \
	%reldir%/gpumap/mesh.py \
	%reldir%/gpumap/model.py \
	%reldir%/gpumap/session.py \
	%reldir%/gpumap/sglang.py \
	%reldir%/gpumap/sync.py \
	%reldir%/gpumap/tinygrad.py \
	%reldir%/gpumap/torch.py \
	%reldir%/gpumap/torchrun.py \
	%reldir%/gpumap/trace.py \
	%reldir%/gpumap/vllm.py
gm_tools = \
	%reldir%/gpumap/tools/__init__.py \
	%reldir%/gpumap/tools/calibrate.py \
	%reldir%/gpumap/tools/cluster.py \
	%reldir%/gpumap/tools/cluster_hold.py \
	%reldir%/gpumap/tools/cluster_lists.py \
	%reldir%/gpumap/tools/cluster_run.py \
	%reldir%/gpumap/tools/command.py \
	%reldir%/gpumap/tools/doctor.py \
	%reldir%/gpumap/tools/doctor_agent.py \
	%reldir%/gpumap/tools/doctor_bundle.py \
	%reldir%/gpumap/tools/doctor_cards.py \
	%reldir%/gpumap/tools/doctor_machine.py \
	%reldir%/gpumap/tools/doctor_node.py \
	%reldir%/gpumap/tools/doctor_rows.py \
	%reldir%/gpumap/tools/exporter.py \
	%reldir%/gpumap/tools/metrics.py \
	%reldir%/gpumap/tools/processes.py \
	%reldir%/gpumap/tools/sync.py \
	%reldir%/gpumap/tools/sync_clients.py \
	%reldir%/gpumap/tools/sync_config.py \
	%reldir%/gpumap/tools/sync_etcd.py \
	%reldir%/gpumap/tools/sync_gangs.py \
	%reldir%/gpumap/tools/sync_log.py \
	%reldir%/gpumap/tools/sync_nodes.py \
	%reldir%/gpumap/tools/sync_store.py \
	%reldir%/gpumap/tools/sync_summary.py \
	%reldir%/gpumap/tools/text.py \
	%reldir%/gpumap/tools/top.py \
	%reldir%/gpumap/tools/top_facts.py \
	%reldir%/gpumap/tools/top_json.py \
	%reldir%/gpumap/tools/top_keys.py \
	%reldir%/gpumap/tools/top_layout.py \
	%reldir%/gpumap/tools/top_page.py \
	%reldir%/gpumap/tools/top_panels.py \
	%reldir%/gpumap/tools/top_screen.py \
	%reldir%/gpumap/tools/topo.py \
	%reldir%/gpumap/tools/topo_node.py \
	%reldir%/gpumap/tools/topo_svg.py \
	%reldir%/gpumap/tools/trace.py
EXTRA_DIST += $(gm_core) $(gm_package) $(gm_tools) %reldir%/tool.in

if PYTHON
packagedir = $(pkglibdir)/python/gpumap
package_PYTHON = $(gm_package)
packagetoolsdir = $(packagedir)/tools
packagetools_PYTHON = $(gm_tools)
package_LTLIBRARIES = %reldir%/_core.la
%canon_reldir%__core_la_SOURCES = $(gm_core)
%canon_reldir%__core_la_CPPFLAGS = $(AM_CPPFLAGS) $(PYTHON_CPPFLAGS) \
	-DPy_LIMITED_API=0x030b0000
%canon_reldir%__core_la_CFLAGS = $(AM_CFLAGS) -Wno-unused-parameter \
	-Wno-cast-function-type -Wno-missing-field-initializers -Wno-write-strings
%canon_reldir%__core_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared
%canon_reldir%__core_la_LIBADD = lib/libgpumap-model.la lib/libgpumap.la

# Programs find the package in the folder where make install puts it; those of the
# build tree, in contrib/python/built, find it there.
gm_commands = calibrate cluster doctor top topo trace
pkglibexec_SCRIPTS = $(gm_commands:%=%reldir%/gpumapctl-%)
sbin_SCRIPTS = %reldir%/gpumap-exporter %reldir%/gpumap-sync
CLEANFILES += $(pkglibexec_SCRIPTS) $(sbin_SCRIPTS)
$(pkglibexec_SCRIPTS) $(sbin_SCRIPTS): $(srcdir)/%reldir%/tool.in Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && name=$(@F) && \
	case $$name in gpumapctl-*) program=gpumapctl ;; *) program=$$name ;; esac && \
	$(SED) -e 's|@python[@]|$(PYTHON)|; s|@folder[@]|$(pkglibdir)/python|' \
	  -e 's|@sysconfdir[@]|$(sysconfdir)|' \
	  -e "s|@program[@]|$$program|; s|@module[@]|$${name#*-}|" \
	  $(srcdir)/%reldir%/tool.in >$@.tmp && chmod +x $@.tmp && mv $@.tmp $@

noinst_DATA += %reldir%/built/stamp
%reldir%/built/stamp: %reldir%/_core.la $(gm_package) $(gm_tools) \
		$(pkglibexec_SCRIPTS) $(sbin_SCRIPTS)
	$(AM_V_GEN)rm -rf $(@D) && $(MKDIR_P) $(@D)/gpumap/tools && \
	ln -s $(abs_srcdir)/%reldir%/gpumap/*.py $(@D)/gpumap && \
	ln -s $(abs_srcdir)/%reldir%/gpumap/tools/*.py $(@D)/gpumap/tools && \
	ln -s $(abs_builddir)/%reldir%/.libs/_core.so $(@D)/gpumap && \
	for program in $(pkglibexec_SCRIPTS) $(sbin_SCRIPTS); do \
	  built=$(@D)/$${program##*/} && \
	  $(SED) -e '1s|$(PYTHON)|$(TOOL_PYTHON)|' \
	    -e 's|$(pkglibdir)/python|$(abs_builddir)/%reldir%/built|' \
	    $$program >$$built && chmod +x $$built || exit 1; \
	done && touch $@
endif

# A wheel with the client library inside.
PYTHON3 = python3
.PHONY: wheel clean-wheel
wheel:
	$(AM_V_at)PYTHON="$(PYTHON3)" $(srcdir)/%reldir%/build-wheel \
		%reldir%/dist
clean-wheel:
	rm -rf %reldir%/dist %reldir%/built
clean-local: clean-wheel
