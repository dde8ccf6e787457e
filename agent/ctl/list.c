/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Ask the agent for all items of its lists. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef int ask_for(struct gpumap *map, void *list, size_t n);

/* How many there are, and then these.  Items begin with their size, @bytes. */
static int list_all(struct gpumap *map, ask_for *ask, size_t bytes,
		    void **ret_list)
{
	int room = ask(map, NULL, 0), n;
	void *list;

	if (room < 0)
		return room;
	list = calloc((size_t)room + 1, bytes);
	if (list == NULL)
		return -ENOMEM;
	memcpy(list, &bytes, sizeof(bytes));
	n = room > 0 ? ask(map, list, (size_t)room) : 0;
	if (n < 0) {
		free(list);
		return n;
	}
	*ret_list = list;
	return n < room ? n : room;
}

#define LIST(of, item)                                                         \
	static int ask_##of(struct gpumap *map, void *list, size_t n)          \
	{                                                                      \
		return gpumap_##of##_list(map, list, n);                       \
	}                                                                      \
                                                                               \
	int gm_ctl_list_##of(const struct gm_ctl *ctl, struct item **ret_list) \
	{                                                                      \
		void *list;                                                    \
		int n = list_all(ctl->map, ask_##of, sizeof(struct item),      \
				 &list);                                       \
                                                                               \
		if (n >= 0)                                                    \
			*ret_list = list;                                      \
		return n;                                                      \
	}

LIST(share, gpumap_share_info)
LIST(usage, gpumap_usage)
LIST(reservation, gpumap_reservation)
LIST(wait, gpumap_wait_info)
