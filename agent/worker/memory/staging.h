/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* staging - host memory for reads of files on their way to a device. */
#ifndef GM_WORKER_MEMORY_STAGING_H
#define GM_WORKER_MEMORY_STAGING_H

#include <stdint.h>

struct gm_loader;
struct gm_piece;
struct gm_worker;

/* Take a free piece, NULL for none. */
struct gm_piece *gm_staging_take(struct gm_loader *loader);
void gm_staging_give(struct gm_loader *loader, struct gm_piece *piece);

/* Find a piece by its number, see gm_staging_number(). */
struct gm_piece *gm_staging_piece(struct gm_loader *loader, uint32_t number);
uint32_t gm_staging_number(const struct gm_piece *piece);

/* Allocate more staging, unless that is in progress or there is enough. */
void gm_staging_grow(struct gm_worker *worker);

/* Free all staging, which is not in use. */
void gm_staging_drop(struct gm_worker *worker);

#endif
