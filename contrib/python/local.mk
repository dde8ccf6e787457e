# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/python: the Python package, which setuptools builds and not make.
EXTRA_DIST += %reldir%/README.md
EXTRA_DIST += %reldir%/build-wheel
EXTRA_DIST += %reldir%/check
EXTRA_DIST += %reldir%/core/arena.c
EXTRA_DIST += %reldir%/core/call.c
EXTRA_DIST += %reldir%/core/cluster.c
EXTRA_DIST += %reldir%/core/comm.c
EXTRA_DIST += %reldir%/core/core.h
EXTRA_DIST += %reldir%/core/core.map
EXTRA_DIST += %reldir%/core/dlpack.c
EXTRA_DIST += %reldir%/core/fields.c
EXTRA_DIST += %reldir%/core/jobs.c
EXTRA_DIST += %reldir%/core/layers.c
EXTRA_DIST += %reldir%/core/lists.c
EXTRA_DIST += %reldir%/core/map.c
EXTRA_DIST += %reldir%/core/mask.c
EXTRA_DIST += %reldir%/core/meshes.c
EXTRA_DIST += %reldir%/core/model.c
EXTRA_DIST += %reldir%/core/module.c
EXTRA_DIST += %reldir%/core/pool.c
EXTRA_DIST += %reldir%/core/requests.c
EXTRA_DIST += %reldir%/core/session.c
EXTRA_DIST += %reldir%/core/sync.c
EXTRA_DIST += %reldir%/core/tensor.c
EXTRA_DIST += %reldir%/core/trace.c
EXTRA_DIST += %reldir%/gpumap/__init__.py
EXTRA_DIST += %reldir%/gpumap/_core.pyi
EXTRA_DIST += %reldir%/gpumap/aio.py
EXTRA_DIST += %reldir%/gpumap/checkpoint.py
EXTRA_DIST += %reldir%/gpumap/comm.py
EXTRA_DIST += %reldir%/gpumap/engine.py
EXTRA_DIST += %reldir%/gpumap/enums.py
EXTRA_DIST += %reldir%/gpumap/errors.py
EXTRA_DIST += %reldir%/gpumap/export.py
EXTRA_DIST += %reldir%/gpumap/facts.py
EXTRA_DIST += %reldir%/gpumap/hf.py
EXTRA_DIST += %reldir%/gpumap/jax.py
EXTRA_DIST += %reldir%/gpumap/map.py
EXTRA_DIST += %reldir%/gpumap/mask.py
EXTRA_DIST += %reldir%/gpumap/mesh.py
EXTRA_DIST += %reldir%/gpumap/model.py
EXTRA_DIST += %reldir%/gpumap/py.typed
EXTRA_DIST += %reldir%/gpumap/session.py
EXTRA_DIST += %reldir%/gpumap/sglang.py
EXTRA_DIST += %reldir%/gpumap/sync.py
EXTRA_DIST += %reldir%/gpumap/tinygrad.py
EXTRA_DIST += %reldir%/gpumap/torch.py
EXTRA_DIST += %reldir%/gpumap/torchrun.py
EXTRA_DIST += %reldir%/gpumap/torchrun_sync.py
EXTRA_DIST += %reldir%/gpumap/trace.py
EXTRA_DIST += %reldir%/gpumap/vllm.py
EXTRA_DIST += %reldir%/pyproject.toml
EXTRA_DIST += %reldir%/setup.py
EXTRA_DIST += %reldir%/tests/agent.py
EXTRA_DIST += %reldir%/tests/bench.py
EXTRA_DIST += %reldir%/tests/bench_load.py
EXTRA_DIST += %reldir%/tests/conftest.py
EXTRA_DIST += %reldir%/tests/test_arrays.py
EXTRA_DIST += %reldir%/tests/test_bad_input.py
EXTRA_DIST += %reldir%/tests/test_cards.py
EXTRA_DIST += %reldir%/tests/fake_sglang.py
EXTRA_DIST += %reldir%/tests/fake_vllm.py
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
EXTRA_DIST += %reldir%/tests/test_session.py
EXTRA_DIST += %reldir%/tests/test_smollm2.py
EXTRA_DIST += %reldir%/tests/syncs.py
EXTRA_DIST += %reldir%/tests/test_sync.py
EXTRA_DIST += %reldir%/tests/test_torch.py
EXTRA_DIST += %reldir%/tests/test_torchrun.py
EXTRA_DIST += %reldir%/tests/test_torchrun_sync.py
EXTRA_DIST += %reldir%/tests/test_trace.py
EXTRA_DIST += %reldir%/try-vllm

# A wheel with the client library inside.
PYTHON3 = python3
.PHONY: wheel clean-wheel
wheel:
	$(AM_V_at)PYTHON="$(PYTHON3)" $(srcdir)/%reldir%/build-wheel \
		%reldir%/dist
clean-wheel:
	rm -rf %reldir%/dist
clean-local: clean-wheel
