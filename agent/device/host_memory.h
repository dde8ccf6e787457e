/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * host_memory - buffers of host rows.
 *
 * Anonymous pages, or the pages of a memfd where others may import them; huge
 * ones, where the kernel has them.  They are had before the buffer is used, so
 * that what lacks is an error and no surprise later, and are fresh from the
 * kernel: no other process's bytes are in them.  The thread that asks is on the
 * node, and so are its pages.
 *
 * Any thread.
 */
#ifndef GM_HOST_MEMORY_H
#define GM_HOST_MEMORY_H

#include "agent/device/device.h"

/* How many descriptors there may be, while it may still be asked. */
void gm_host_memory_init(void);

int gm_host_alloc(struct gm_backend_device *dev, uint64_t owner, uint64_t bytes,
		  uint32_t flags, struct gm_buffer **ret_buffer);
int gm_host_populate(struct gm_backend_device *dev, struct gm_buffer *buffer);
void gm_host_free(struct gm_backend_device *dev, struct gm_buffer *buffer);
int gm_host_export_fd(struct gm_backend_device *dev, struct gm_buffer *buffer);
int gm_host_import_fd(struct gm_backend_device *dev, int fd, uint64_t bytes,
		      struct gm_buffer **ret_buffer);

#endif
