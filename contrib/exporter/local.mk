# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/exporter: what Prometheus and Grafana make of the exporter's metrics.
EXTRA_DIST += %reldir%/gpumap-alerts.yaml %reldir%/gpumap-dashboard.json

if EXPORTER
doc_DATA += %reldir%/gpumap-alerts.yaml %reldir%/gpumap-dashboard.json
endif
