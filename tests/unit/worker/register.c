/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* register: a large registration or allocation takes turns with those of other
 * users. */

#include "tests/support/worker/async_rig.h"
#include "tests/support/worker/gate.h"

#define LARGE (130 * MIB) /* more than two turns populate */

static struct rig r;
static struct gm_worker_session *attach(struct hand_client *c, uint32_t uid)
{
	hand_open(c, 100 + uid, uid, ROW, 64, 64 * KIB);
	c->uid = uid;
	return rig_attach(&r, c);
}

static void ask(const struct hand_client *c, uint64_t bytes)
{
	struct gm_wire wire = { .type = GM_WIRE_REGISTER,
				.session = c->id,
				.place = c->place };
	int fd = memfd_create("large", MFD_CLOEXEC);

	OK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	wire.handle = gm_handle_make(1, GM_BUFFER_REGISTERED, 0, 1);
	wire.buffer.bytes = bytes;
	gm_async_ops_register(&r.w, &wire, fd);
}

/* Which session's registration has ended next? */
static uint64_t registered(void)
{
	struct gm_wire wire = { 0 };

	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_REGISTERED);
	EQ(wire.status, 0);
	return wire.session;
}

static void a_large_registration_lets_a_small_one_pass(void)
{
	struct gm_worker_session *s[2];
	struct hand_client c[2];

	rig_open(&r, 64 * KIB, 1);
	s[0] = attach(&c[0], 1);
	s[1] = attach(&c[1], 2);
	gate_close(&r.w.slow);
	ask(&c[0], LARGE);
	ask(&c[1], 4096);
	gate_open();
	rig_slow(&r);
	EQ(registered(), c[1].id);
	EQ(registered(), c[0].id);
	EQ(r.late.n_reached, 2);
	EQ(s[0]->buffers.slot[1]->map_bytes, LARGE);
	for (int i = 0; i < 2; i++)
		rig_end(&r, &c[i], s[i]);
	EQ(r.late.n_unreached, 2);
	rig_close(&r);
}

/* Bytes of whole pages that are there. */
static uint64_t present(const struct gm_buffer *b)
{
	static unsigned char there[LARGE / 4096];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n = 0;

	if (mincore((void *)(uintptr_t)b->address, LARGE, there) < 0)
		return 0;
	for (uint64_t i = 0; i < LARGE / page; i++)
		n += there[i] & 1;
	return n * page;
}

static void a_host_row_populates_by_parts(uint32_t flags)
{
	struct gm_device_config config = { .parts = 1 };
	struct gm_backend_device *dev;
	struct gm_buffer *b;
	int parts = 0, rc;

	if (!EQ(gm_host_backend.open(&config, &dev), 0) ||
	    !EQ(gm_host_backend.alloc(dev, 1, LARGE, flags, &b), 0))
		return;
	OK(present(b) <= LARGE / 2);
	do {
		rc = gm_host_backend.populate(dev, b);
	} while (rc == 0 && ++parts < 100);
	EQ(rc, 1);
	EQ(parts, 2); /* and the last */
	EQ(present(b), LARGE);
	gm_host_backend.free(dev, b);
	gm_host_backend.close(dev);
}

TAP_CASE()
{
	a_large_registration_lets_a_small_one_pass();
	a_host_row_populates_by_parts(0);
	a_host_row_populates_by_parts(GPUMAP_BUFFER_EXPORTABLE);
	return tap_done();
}
