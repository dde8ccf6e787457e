/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask_replicas - large masks on the cards of a scene, each with bytes of its
 * own, and what is in their replicas.
 */
#ifndef GM_TEST_SUPPORT_MASK_REPLICAS_H
#define GM_TEST_SUPPORT_MASK_REPLICAS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/mask/mask.h"
#include "tests/support/cuda_agent.h"

#define MASK_CARDS 4u
#define MASK_LARGE 3000u /* queries, and keys: 9000000 bytes as u8 */
#define MASK_SMALL 1000u

struct mask_cards {
	struct cuda_scene scene;
	struct agent agent;
	struct gpumap *map;
	uint32_t rows[MASK_CARDS];
	uint64_t window; /* of the last mask: so each differs */
};

/* The first @n that run anything.  Other rows are left as they are. */
bool mask_cards_find(struct mask_cards *m, uint32_t n);

/* The same bytes as the last one. */
int mask_cards_again(struct mask_cards *m, const char *name, uint32_t size,
		     uint32_t n);
int mask_cards_publish(struct mask_cards *m, const char *name, uint32_t size,
		       uint32_t n);

/* From a process of its own, which exits with the error. */
pid_t mask_cards_publish_from(struct mask_cards *m, const char *name,
			      uint32_t size, uint32_t n);

/* The error that it exited with. */
int mask_cards_reap(pid_t pid);

/* ---- what is in a replica ------------------------------------------------ */

const uint8_t *mask_cards_rule(const struct mask_cards *m, uint32_t size);

struct mask_import {
	uint8_t *at; /* NULL: nothing */
	uint64_t bytes;
	struct fake_reference ref;
};

/* On a connection: the descriptors that it was given count until it ends. */
bool mask_cards_import(struct mask_cards *m, struct gpumap *by,
		       const struct gpumap_mask_view *view,
		       struct mask_import *it);
void mask_cards_give_back(struct mask_cards *m, struct mask_import *it);

/* How many of its bytes are wrong; UINT64_MAX: there is none. */
uint64_t mask_cards_wrong(struct mask_cards *m, const char *name, uint32_t row,
			  uint32_t size);

/* On the first @n. */
bool mask_cards_right(struct mask_cards *m, const char *name, uint32_t size,
		      uint32_t n);

/* ---- by which way -------------------------------------------------------- */

/* Replicas of a row that were made by a way, "peer" or "upload", since the
 * agent's start. */
uint32_t mask_cards_made(const struct mask_cards *m, uint32_t row,
			 const char *way);

/* ---- copies that take long ----------------------------------------------- */

/* Which of the machine's cards the @i-th is. */
uint32_t mask_cards_gpu(const struct mask_cards *m, uint32_t i);

/* From here on copies to all of the first @n but the first take @time. */
void mask_cards_slow(struct mask_cards *m, uint32_t n, const char *time,
		     uint64_t ret_copies[MASK_CARDS]);
void mask_cards_at_it(struct mask_cards *m, uint32_t n,
		      const uint64_t copies[MASK_CARDS]);

/* Publish on the first @n, and return once each but the first is at its
 * copy. */
pid_t mask_cards_publish_slowly(struct mask_cards *m, const char *name,
				uint32_t n, const char *time);

/* From a process of its own, which exits with the error. */
pid_t mask_cards_drain_from(struct mask_cards *m, uint32_t i);
void mask_cards_back(struct mask_cards *m, uint32_t i);

/* ---- links --------------------------------------------------------------- */

void mask_cards_spoil(struct mask_cards *m);

/* Each card to each other, and no faults. */
void mask_cards_link(struct mask_cards *m);

/* NVML's report of the links comes after the rows; then each path from the
 * first card to another is tried. */
bool mask_cards_try(struct mask_cards *m, uint32_t n);

#endif
