# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/bpftrace: programs for the tracepoints of gpumapd(8).
if AGENT
doc_DATA += %reldir%/agent.bt %reldir%/client.bt %reldir%/jobs.bt
endif
EXTRA_DIST += %reldir%/agent.bt %reldir%/client.bt %reldir%/jobs.bt
