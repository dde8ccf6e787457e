# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/container: an image of the agent, and files for engines that run it.
# contrib/slurm: scripts for slurm.conf.
EXTRA_DIST += %reldir%/README.md %reldir%/build %reldir%/check
EXTRA_DIST += %reldir%/cdi.yaml
EXTRA_DIST += %reldir%/compose.nvidia.yaml
EXTRA_DIST += %reldir%/compose.yaml
EXTRA_DIST += %reldir%/kubernetes/client.yaml
EXTRA_DIST += %reldir%/kubernetes/gpumap-sync.yaml
EXTRA_DIST += %reldir%/kubernetes/gpumapd.yaml
EXTRA_DIST += %reldir%/manifests.py
EXTRA_DIST += contrib/slurm/health-check contrib/slurm/task-prolog
