/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/reservation.h - see what committed layer maps reserve, and what waits.
 */
#ifndef GPUMAP_RESERVATION_H
#define GPUMAP_RESERVATION_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * gpumap_started - end the start window of a held map
 *
 * To be called when the program has allocated what it measures free memory for,
 * so that the next program may start on its rows.
 *
 * Returns	0, also where no window is open
 *		-ENOENT		no layer map has this name, or no process holds
 *				it
 *		-EPERM		it belongs to another user, and this one is not
 *				root
 *		-EINVAL		name is NULL, empty, or of more than 63 bytes
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOPNOTSUPP, -EPROTO,
 *		-EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_started(struct gpumap *map, const char *name);

/* The holder of a reservation: a committed layer map, whose charges are
 * reserved. */
struct gpumap_holder {
	size_t size; /* sizeof(struct gpumap_holder), set by the caller */
	char name[64];
	uint64_t version;
	uint64_t since_ns; /* since 1970 */
	uint32_t uid;
	uint32_t pid; /* the process that holds it, in the agent's pid
		       * namespace; 0: held until it is released */
	/* what is left of its start window; 0: it is in none */
	uint64_t start_ns;
};

/*
 * gpumap_holder_next - list the committed layer maps, one for each call
 *
 * cursor	0 for the first call, then as it was left by the last
 * ret_holder	set its @size before the call
 *
 * Maps that are committed or released meanwhile may or may not be seen.
 *
 * Returns	1 with one, 0 when there is none left
 *		-E2BIG, -EINVAL	ret_holder->size is more than 4096 bytes, or
 *				smaller than its first fields
 * Cost		no system call; a search of the directory
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_holder_next(const struct gpumap *map, uint32_t *cursor,
				  struct gpumap_holder *ret_holder);

/* The bytes that one committed layer map reserves of one row. */
struct gpumap_reservation {
	size_t size; /* sizeof(struct gpumap_reservation), set by the caller */
	char name[64];
	uint64_t version;
	uint32_t row;
	uint32_t uid;
	uint32_t pid; /* as in struct gpumap_holder */
	uint32_t reserved;
	uint64_t bytes; /* reserved */
	/* Bytes among them that need not be kept free any more: memory that the
	 * processes of the reservation have allocated for themselves, as far as
	 * the row's driver tells (gpumap_device.figures), and the memory of
	 * their sessions. */
	uint64_t own_bytes;
	uint64_t session_bytes;
};

/*
 * gpumap_reservation_list - list what is reserved of each row, and how much of
 * it is in use
 *
 * There is one item for each committed layer map and row of it, by place in the
 * directory and by row.  The processes of a reservation are the one that holds
 * it, and all that descend from that one.
 *
 * ret_list	room for @n; the @size of the first is set, and is that of all,
 *		also after the call
 *
 * Returns	the number of items, which may be more than @n, or
 *		-E2BIG		@size is more than 4096 bytes
 *		-EINVAL		@size is smaller than its first fields
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOPNOTSUPP, -EPROTO,
 *		-EOWNERDEAD, when ret_list may hold some of them
 * Cost		a round trip on the control socket for every 64
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_reservation_list(struct gpumap *map,
				       struct gpumap_reservation *ret_list,
				       size_t n);

/* Bits of gpumap_wait_info.flags. */
/* There is room: it waits until another process has started. */
#define GPUMAP_WAIT_FOR_START (UINT32_C(1) << 0)

/* A request of gpumap_plan_make() that waits for room. */
struct gpumap_wait_info {
	size_t size; /* sizeof(struct gpumap_wait_info), set by the caller */
	char name[64];
	uint32_t uid;
	uint32_t pid;           /* as in struct gpumap_holder; 0: not seen */
	uint32_t flags;         /* GPUMAP_WAIT_* */
	uint32_t n_rows;        /* that it may take */
	uint64_t rows[4];       /* these, a bit for each */
	uint64_t missing_bytes; /* at the last attempt; 0: not known */
	uint32_t missing_row;
	/* Requests that came before it and keep one of its rows from it: it and
	 * they could not stand there together. */
	uint32_t n_before;
	uint64_t bytes;   /* that it asks for in all; 0: a plan decides */
	uint64_t age_ns;  /* since it came */
	uint64_t left_ns; /* until it is refused */
};

/*
 * gpumap_wait_list - list the requests that wait for room, the first in the
 * line first
 *
 * ret_list	room for @n; the @size of the first is set, and is that of all,
 *		also after the call
 *
 * Returns	the number of items, which may be more than @n, or an error as
 *		gpumap_reservation_list()
 * Cost		a round trip on the control socket for every 64
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_wait_list(struct gpumap *map,
				struct gpumap_wait_info *ret_list, size_t n);

/*
 * gpumap_wait_drop - have requests that wait for room give up
 *
 * name		of the map that they ask for.  Root and the agent's own user
 *		drop those of all users, others their own.
 *
 * Each of them ends with -ECANCELED.
 *
 * Returns	0
 *		-ENOENT		no such request waits
 *		-EINVAL		no map can have this name
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOWNERDEAD, ...	as every
 *				request
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_wait_drop(struct gpumap *map, const char *name);

#ifdef __cplusplus
}
#endif

#endif
