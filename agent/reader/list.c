/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/reader/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef int ask_for(struct gpumap *map, void *list, size_t n);

/* How many there are, and then these.  The library wants the size of an item,
 * @bytes, where it stores items that begin with one.  Returns NULL when *ret_n
 * is an error. */
static void *list_all(struct gpumap *map, ask_for *ask, size_t bytes,
		      int *ret_n)
{
	int room = ask(map, NULL, 0), n = 0;
	void *list = NULL;

	if (room >= 0)
		list = calloc((size_t)room + 1, bytes);
	if (list == NULL) {
		*ret_n = room < 0 ? room : -ENOMEM;
		return NULL;
	}
	memcpy(list, &bytes, sizeof(bytes));
	if (room > 0)
		n = ask(map, list, (size_t)room);
	*ret_n = n < room ? n : room;
	if (n >= 0)
		return list;
	free(list);
	return NULL;
}

#define ASK(of)                                                       \
	static int ask_##of(struct gpumap *map, void *list, size_t n) \
	{                                                             \
		return gpumap_##of##_list(map, list, n);              \
	}

ASK(session)
ASK(share)
ASK(usage)
ASK(reservation)
ASK(wait)

int gm_list_session(struct gpumap *map, struct gpumap_session_info **ret_list)
{
	int n;

	*ret_list = list_all(map, ask_session, sizeof(**ret_list), &n);
	return n;
}

int gm_list_share(struct gpumap *map, struct gpumap_share_info **ret_list)
{
	int n;

	*ret_list = list_all(map, ask_share, sizeof(**ret_list), &n);
	return n;
}

int gm_list_usage(struct gpumap *map, struct gpumap_usage **ret_list)
{
	int n;

	*ret_list = list_all(map, ask_usage, sizeof(**ret_list), &n);
	return n;
}

int gm_list_reservation(struct gpumap *map,
			struct gpumap_reservation **ret_list)
{
	int n;

	*ret_list = list_all(map, ask_reservation, sizeof(**ret_list), &n);
	return n;
}

int gm_list_wait(struct gpumap *map, struct gpumap_wait_info **ret_list)
{
	int n;

	*ret_list = list_all(map, ask_wait, sizeof(**ret_list), &n);
	return n;
}
