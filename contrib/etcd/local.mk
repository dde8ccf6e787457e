# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/etcd: the rights of nodes in etcd.
EXTRA_DIST += %reldir%/etcd-node

if PYTHON
doc_DATA += %reldir%/etcd-node
endif
