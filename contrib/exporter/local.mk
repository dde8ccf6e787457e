# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/exporter: the exporter's page, and what Prometheus and Grafana make of its
# metrics.
EXTRA_DIST += %reldir%/gpumap-alerts.yaml %reldir%/gpumap-dashboard.json

gm_pages += %reldir%/gpumap-exporter.8
if PYTHON
gm_man += %reldir%/gpumap-exporter.8
doc_DATA += %reldir%/gpumap-alerts.yaml %reldir%/gpumap-dashboard.json
endif
