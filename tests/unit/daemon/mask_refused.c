/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A mask that is refused when its bytes have been made already: the loop, which
 * ends the change, does not give all of their pages back itself.
 */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/masks/transaction.h"
#include "tests/support/tap.h"

#define BYTES (UINT64_C(1) << 20)

static struct gm_daemon *d;
static struct gm_control_server server;

static bool is_mapped(void *at)
{
	unsigned char resident;

	return mincore(at, 1, &resident) == 0 || errno != ENOMEM;
}

/* Its pages are there, as after gm_mask_change_generate(). */
static void *stage(struct gm_mask_change *p)
{
	p->change.d = d;
	p->image.bytes = BYTES;
	if (!EQ(gm_mask_change_stage(p), 0))
		return NULL;
	memset(p->staging, 1, BYTES);
	return p->staging;
}

static void a_thread_gives_it_back(void)
{
	static const struct gm_change_kind kind = { .is_heavy = true };
	struct gm_mask_change *p = gm_mask_change_new(&kind);
	void *at;

	if (!OK(p != NULL))
		return;
	at = stage(p);
	gm_close_thread_init(&server.close_thread);
	d->server = &server;
	gm_mask_change_free(&p->change);
	OK(server.close_thread.running);
	gm_close_thread_stop(&server.close_thread);
	OK(at != NULL && !is_mapped(at));
}

/* Before there is a server, and after its end. */
static void without_one_it_is_given_back_too(void)
{
	static const struct gm_change_kind kind = { .is_heavy = true };
	struct gm_mask_change *p = gm_mask_change_new(&kind);
	void *at;

	if (!OK(p != NULL))
		return;
	at = stage(p);
	d->server = NULL;
	gm_mask_change_free(&p->change);
	OK(at != NULL && !is_mapped(at));
}

TAP_CASE()
{
	d = gm_daemon_new();
	if (!OK(d))
		return tap_done();
	a_thread_gives_it_back();
	without_one_it_is_given_back_too();
	gm_daemon_free(d);
	return tap_done();
}
