/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker: buffers of a row, memory that clients register, exports and imports,
 * told to gpumap-worker as gpumapd tells it; on a host row, and on a card where
 * there is one.
 */

#include <sys/resource.h>

#include "tests/support/stand_in.h"
#include "tests/support/worker/worker_cuda.h"

#define BYTES (3 * MIB + 100)

static struct row row;

static uint64_t registered(uint32_t index)
{
	return gm_handle_make(index + 1, GM_BUFFER_REGISTERED, 0, index);
}

static struct gm_wire about(uint32_t type, const struct hand_client *c,
			    uint64_t handle)
{
	struct gm_wire wire;

	memset(&wire, 0, sizeof(wire));
	wire.type = type;
	wire.session = c->id;
	wire.place = c->place;
	wire.handle = handle;
	return wire;
}

/* The answer to @wire: its status, 1 where it is none.  ret_fd receives what
 * came with it, or -1. */
static int ask(struct gm_wire *wire, const int *fd, uint32_t want, int *ret_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct pollfd p = { .fd = row.pair, .events = POLLIN };
	struct iovec data = { wire, sizeof(*wire) };
	struct msghdr msg = { .msg_iov = &data,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	uint64_t handle = wire->handle;
	struct cmsghdr *c;

	*ret_fd = -1;
	row_tell(&row, wire, fd, fd ? 1 : 0);
	if (poll(&p, 1, (int)(HAND_PATIENCE_NS / 1000000)) != 1 ||
	    recvmsg(row.pair, &msg, MSG_CMSG_CLOEXEC) != sizeof(*wire))
		return 1;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	if (wire->type != want || wire->handle != handle)
		return 1;
	return wire->status;
}

static int tell(struct gm_wire *wire, const int *fd, uint32_t want)
{
	int none, rc = ask(wire, fd, want, &none);

	return none < 0 ? rc : 1;
}

static int do_register(const struct hand_client *c, uint64_t handle, int fd,
		       uint64_t at, uint64_t bytes, uint32_t flags)
{
	struct gm_wire wire = about(GM_WIRE_REGISTER, c, handle);

	wire.buffer.at = at;
	wire.buffer.bytes = bytes;
	wire.buffer.flags = flags;
	return tell(&wire, &fd, GM_WIRE_REGISTERED);
}

static int do_forget(const struct hand_client *c, uint64_t handle)
{
	struct gm_wire wire = about(GM_WIRE_FORGET, c, handle);

	return tell(&wire, NULL, GM_WIRE_FORGOTTEN);
}

static int do_import(const struct hand_client *c, uint64_t handle, int fd,
		     uint64_t bytes, uint32_t flags)
{
	struct gm_wire wire = about(GM_WIRE_IMPORT, c, handle);

	wire.buffer.bytes = bytes;
	wire.buffer.flags = flags;
	return tell(&wire, &fd, GM_WIRE_IMPORTED);
}

static int do_copy(struct hand_client *c, uint64_t dst_buffer, uint64_t dst,
		   uint64_t src_buffer, uint64_t src, uint64_t n)
{
	struct gm_entry e =
		hand_copy_between(c, dst_buffer, dst, src_buffer, src, n);

	return hand_do(c, &e);
}

static int do_alloc(struct hand_client *c, uint64_t handle, uint64_t bytes,
		    uint32_t flags)
{
	struct gm_entry e = hand_alloc(c, handle, bytes, flags);

	return hand_do(c, &e);
}

static int do_free(struct hand_client *c, uint64_t handle)
{
	struct gm_entry e = hand_free(c, handle);

	return hand_do(c, &e);
}

static void fill_with_noise(char *at, uint64_t n, uint32_t seed)
{
	for (uint64_t i = 0; i < n; i++)
		at[i] = (char)((i + seed) * 2654435761u >> 13);
}

static void detach(struct hand_client *c)
{
	struct gm_wire wire;

	row_tell_about(&row, GM_WIRE_DETACH, c);
	EQ(row_hear(&row, &wire), GM_WIRE_DETACHED);
	hand_close(c, ROW);
}

static void bytes_live_in_buffers(void)
{
	uint64_t a = hand_handle(ROW, 1), b = hand_handle(ROW, 4095);
	struct hand_client c;

	hand_open(&c, 1, 0, ROW, 16, 8 * MIB);
	EQ(row_attach(&row, &c), 0);
	fill_with_noise(c.memory, BYTES, 1);
	EQ(do_alloc(&c, a, BYTES, 0), 0);
	EQ(do_alloc(&c, b, BYTES, GPUMAP_BUFFER_EXPORTABLE), 0);
	EQ(do_alloc(&c, b, 1, 0), -EEXIST);
	EQ(do_alloc(&c, hand_handle(ROW, 7), UINT64_C(1) << 60, 0), -ENOMEM);
	EQ(do_copy(&c, a, 0, 0, 0, BYTES), 0);
	EQ(do_copy(&c, b, 4, a, 0, BYTES - 4), 0);
	EQ(do_copy(&c, 0, 4 * MIB, b, 4, BYTES - 4), 0);
	EQ(memcmp(c.memory, c.memory + 4 * MIB, BYTES - 4), 0);
	EQ(do_copy(&c, a, BYTES, 0, 0, 1), -ERANGE);
	EQ(do_copy(&c, a, 0, a, 10, 100), -EINVAL);
	EQ(do_copy(&c, a, 0, hand_handle(ROW + 1, 1), 0, 1), -ESTALE);
	EQ(do_free(&c, a), 0);
	EQ(do_free(&c, a), -ESTALE);
	EQ(do_copy(&c, 0, 0, a, 0, 1), -ESTALE);
	/* The place is free again, under another name. */
	EQ(do_alloc(&c, a + (UINT64_C(1) << 32), 16, 0), 0);
	EQ(do_copy(&c, 0, 0, a, 0, 1), -ESTALE);
	detach(&c); /* with all that it has */
}

static int memfd(char **ret_map)
{
	int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, 4 * MIB) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		exit(99);
	*ret_map =
		mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*ret_map == MAP_FAILED)
		exit(99);
	return fd;
}

static void memory_of_clients_is_registered(void)
{
	uint64_t own = registered(2), read_only = registered(3);
	uint64_t a = hand_handle(ROW, 1);
	struct hand_client c, other;
	char *map;
	int fd;

	hand_open(&c, 1, 0, ROW, 16, 8 * MIB);
	hand_open(&other, 2, 1, ROW, 16, 8 * MIB);
	EQ(row_attach(&row, &c), 0);
	EQ(row_attach(&row, &other), 0);
	fd = memfd(&map);
	EQ(do_register(&c, own, fd, MIB, BYTES - MIB, 0), 0);
	EQ(do_register(&c, own, fd, MIB, 4096, 0), -EEXIST);
	EQ(do_register(&c, read_only, fd, 0, MIB, GPUMAP_BUFFER_READ_ONLY), 0);
	EQ(do_register(&c, a, fd, 0, MIB, 0), -EINVAL);
	EQ(do_register(&c, registered(4), fd, 0, 0, 0), -EINVAL);
	other.id = 77;
	EQ(do_register(&other, own, fd, 0, 4096, 0), -ENOENT);
	other.id = 2;

	fill_with_noise(map, 4 * MIB, 2);
	EQ(do_alloc(&c, a, MIB, 0), 0);
	EQ(do_copy(&c, a, 0, own, 0, MIB), 0);
	EQ(do_copy(&c, 0, 100, a, 0, MIB), 0);
	EQ(memcmp(c.memory + 100, map + MIB, MIB), 0);
	EQ(do_copy(&c, own, MIB, read_only, 0, MIB / 2), 0);
	EQ(memcmp(map, map + 2 * MIB, MIB / 2), 0);
	EQ(do_copy(&c, read_only, 0, own, 0, 1), -EACCES);
	EQ(do_copy(&c, own, BYTES - MIB, 0, 0, 1), -ERANGE);
	EQ(do_copy(&other, 0, 0, own, 0, 1), -ESTALE); /* not its own */
	EQ(do_free(&c, own), -EINVAL);

	EQ(do_forget(&c, own), 0);
	EQ(do_forget(&c, own), -ESTALE);
	EQ(do_forget(&c, a), -ESTALE); /* what entries allocate, entries free */
	EQ(do_copy(&c, 0, 0, own, 0, 1), -ESTALE);
	EQ(do_register(&c, own + (UINT64_C(1) << 32), fd, 0, 4096, 0), 0);
	munmap(map, 4 * MIB);
	close(fd);
	detach(&other);
	detach(&c);
}

static void exports_are_imported(void)
{
	uint64_t a = hand_handle(ROW, 1), b = hand_handle(ROW, 2);
	struct hand_client from, to;
	struct gm_wire wire;
	int fd, none;

	hand_open(&from, 1, 0, ROW, 16, 8 * MIB);
	hand_open(&to, 2, 1, ROW, 16, 8 * MIB);
	EQ(row_attach(&row, &from), 0);
	EQ(row_attach(&row, &to), 0);
	EQ(do_alloc(&from, a, BYTES, GPUMAP_BUFFER_EXPORTABLE), 0);
	EQ(do_alloc(&from, b, BYTES, 0), 0);
	wire = about(GM_WIRE_EXPORT, &from, b);
	EQ(ask(&wire, NULL, GM_WIRE_EXPORTED, &none), -EOPNOTSUPP);
	wire = about(GM_WIRE_EXPORT, &to, a);
	EQ(ask(&wire, NULL, GM_WIRE_EXPORTED, &none), -ESTALE);
	wire = about(GM_WIRE_EXPORT, &from, a);
	EQ(ask(&wire, NULL, GM_WIRE_EXPORTED, &fd), 0);
	if (!OK(fd >= 0))
		return;
	EQ(wire.buffer.bytes, BYTES);

	fill_with_noise(from.memory, BYTES, 3);
	EQ(do_copy(&from, a, 0, 0, 0, BYTES), 0);
	EQ(do_import(&to, b, fd, BYTES, GPUMAP_BUFFER_READ_ONLY), 0);
	EQ(do_import(&to, b, fd, BYTES, 0), -EEXIST);
	EQ(do_import(&to, hand_handle(ROW, 5), fd, 64 * MIB, 0), -EINVAL);
	EQ(do_copy(&to, 0, 0, b, 0, BYTES), 0);
	EQ(memcmp(from.memory, to.memory, BYTES), 0);
	EQ(do_copy(&to, b, 0, 0, 0, 1), -EACCES);
	EQ(do_free(&to, b), -EINVAL);
	/* The buffer stays, whatever becomes of the worker that made it. */
	detach(&from);
	memset(to.memory, 0, BYTES);
	EQ(do_copy(&to, 0, 4 * MIB, b, 0, BYTES), 0);
	fill_with_noise(to.memory, BYTES, 3);
	EQ(memcmp(to.memory, to.memory + 4 * MIB, BYTES), 0);
	EQ(do_forget(&to, b), 0);
	EQ(do_copy(&to, 0, 0, b, 0, 1), -ESTALE);
	close(fd);
	detach(&to);
}

/* A process with the descriptor may punch holes into it, and no more than
 * that. */
static void an_exported_buffer_cannot_be_cut(void)
{
	uint64_t a = hand_handle(ROW, 1);
	struct hand_client c;
	struct gm_wire wire;
	int fd;

	hand_open(&c, 1, 0, ROW, 16, MIB);
	EQ(row_attach(&row, &c), 0);
	EQ(do_alloc(&c, a, MIB, GPUMAP_BUFFER_EXPORTABLE), 0);
	wire = about(GM_WIRE_EXPORT, &c, a);
	EQ(ask(&wire, NULL, GM_WIRE_EXPORTED, &fd), 0);
	OK(ftruncate(fd, 0) < 0);
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MIB);
	EQ(do_copy(&c, 0, 0, a, 0, MIB), 0);
	close(fd);
	detach(&c);
}

/* Any number of them at once, behind work of the same session. */
static void forgetting_waits_for_what_is_under_way(void)
{
	struct hand_client c;
	struct gm_entry e[8];
	uint32_t pos;
	int32_t status = 1;
	int failed = 0, fd;
	char *map;

	hand_open(&c, 1, 0, ROW, 16, 64 * MIB);
	EQ(row_attach(&row, &c), 0);
	fd = memfd(&map);
	for (uint32_t i = 0; i < 8; i++) {
		failed +=
			do_register(&c, registered(i), fd, 0, 4 * MIB, 0) != 0;
		e[i] = hand_copy_between(&c, 0, i * 8 * MIB, registered(i), 0,
					 4 * MIB);
	}
	fill_with_noise(map, 4 * MIB, 4);
	hand_submit(&c, e, 8);
	for (uint32_t i = 0; i < 8; i++)
		failed += do_forget(&c, registered(i)) != 0;
	for (uint32_t i = 0; i < 8; i++) {
		failed += !hand_wait(&c, &pos, &status);
		/* Read in time, or too late: never something else. */
		failed += status == 0 ? memcmp(c.memory + i * 8 * MIB, map,
					       4 * MIB) != 0
				      : status != -ESTALE;
	}
	EQ(failed, 0);
	munmap(map, 4 * MIB);
	close(fd);
	detach(&c);
}

static bool start_with_few_descriptors(void)
{
	struct rlimit before, few;
	bool started;

	getrlimit(RLIMIT_NOFILE, &before);
	few = (struct rlimit){ 96, before.rlim_max };
	setrlimit(RLIMIT_NOFILE, &few);
	started = row_start(&row, false);
	setrlimit(RLIMIT_NOFILE, &before);
	return started;
}

/* An exporter runs out of descriptors before sessions do, and a client that
 * comes when there are none is refused: the others are served on. */
static void descriptors_run_out(void)
{
	static struct hand_client c[32];
	struct gm_entry nop;
	uint32_t n = 0, come = 1;
	int rc = 0;

	row_make(&row);
	if (!OK(start_with_few_descriptors()))
		return;
	hand_open(&c[0], 1, 0, ROW, 16, MIB);
	EQ(row_attach(&row, &c[0]), 0);
	while (rc == 0 && n < 96) {
		rc = do_alloc(&c[0], hand_handle(ROW, n), 1,
			      GPUMAP_BUFFER_EXPORTABLE);
		n += rc == 0;
	}
	EQ(rc, -EMFILE);
	OK(n > 32);
	for (rc = 0; rc == 0 && come < 32; come++) {
		hand_open(&c[come], come + 1, come, ROW, 16, MIB);
		rc = row_attach(&row, &c[come]);
	}
	EQ(rc, -EMFILE);
	OK(come > 8);
	for (uint32_t i = 0; i + 1 < come; i++) {
		nop = hand_nop(&c[i]);
		EQ(hand_do(&c[i], &nop), 0);
	}
	hand_close(&c[--come], ROW);
	while (come-- > 0)
		detach(&c[come]);
	EQ(row_drain(&row), 0);
	row_drop(&row);
}

static void stories(bool on_card)
{
	if (!OK(row_start(&row, false))) {
		NOTE("%s", row.failed);
		return;
	}
	bytes_live_in_buffers();
	memory_of_clients_is_registered();
	exports_are_imported();
	if (!on_card)
		an_exported_buffer_cannot_be_cut();
	forgetting_waits_for_what_is_under_way();
	EQ(gm_get(&row.journal->slow) >> 56, GM_CALL_IDLE);
	EQ(row_drain(&row), 0);
	row_drop(&row);
}

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	stand_in_exec(argv);
	if (!row_can_run())
		return tap_done();
	row_make(&row);
	stories(false);
	descriptors_run_out();
	if (!ask_uuid()) {
		LACK("cuda", 1, "no card");
		return tap_done();
	}
	cuda_row(&row);
	stories(true);
	return tap_done();
}
