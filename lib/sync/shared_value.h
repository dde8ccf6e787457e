/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * shared_value.h - requests of values, by a caller that has the lock of the
 * connection.
 *
 * Each ends by sync->until_ns.  Nothing is cleared that gpumap_sync_check() has
 * to say.
 */
#ifndef GM_SHARED_VALUE_H
#define GM_SHARED_VALUE_H

#include "lib/sync/link.h"

/* As gpumap_value_get(), _cas(), _wait() and _list(). */
int gm_shared_value_get(struct gpumap_sync *sync, const char *key,
			void *ret_value, size_t n, size_t *ret_bytes,
			uint64_t *ret_revision);
int gm_shared_value_cas(struct gpumap_sync *sync,
			const struct gpumap_value_write *write,
			uint64_t *ret_revision);
int gm_shared_value_wait(struct gpumap_sync *sync, const char *prefix,
			 uint64_t seen, uint64_t deadline_ns,
			 uint64_t *ret_seen);

int gm_shared_value_list(struct gpumap_sync *sync, const char *prefix,
			 char *ret_ends, size_t n, size_t *ret_bytes);

/* Ask for an answer when something below @prefix changes.  Returns as
 * gm_sync_link_ask(). */
int gm_shared_value_ask_wait(struct gpumap_sync *sync, const char *prefix,
			     uint64_t seen, uint32_t *ret_serial);

#endif
