/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Attacks through registered memory, buffers, exports and imports. */

#include "tests/system/hostile/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpumap.h"

#define DEPTH   64u
#define RANGE   (UINT64_C(1) << 20)
#define BYTES   (UINT64_C(256) << 10) /* of each file, and of most buffers */
#define NEVER   (UINT32_C(1) << 31)   /* a generation no buffer reaches */
#define HANDLES 16u

/* ---- files ------------------------------------------------------------- */

/* GOOD may be registered, read-only or for writing; FIXED for reading alone; no
 * other file at all. */
enum { GOOD, FIXED, READ_ONLY, BARE, SOCKET, DEVICE, N_FILES };

struct files {
	int fd[N_FILES];
};

static int memory_file(int seals)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)BYTES) != 0 ||
	    fcntl(fd, F_ADD_SEALS, seals) != 0)
		_exit(99);
	return fd;
}

static void files_open(struct files *f)
{
	char name[64];

	f->fd[GOOD] = memory_file(F_SEAL_SHRINK);
	f->fd[FIXED] = memory_file(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
	f->fd[BARE] = memory_file(F_SEAL_GROW);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", f->fd[GOOD]);
	f->fd[READ_ONLY] = open(name, O_RDONLY | O_CLOEXEC);
	f->fd[SOCKET] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	f->fd[DEVICE] = open("/dev/zero", O_RDWR | O_CLOEXEC);
}

static void files_close(struct files *f)
{
	for (int i = 0; i < N_FILES; i++)
		close(f->fd[i]);
}

/* ---- requests ---------------------------------------------------------- */

/* A session that sends every kind of request about buffers, with right and
 * wrong values. */
struct claimant {
	struct hostile *h;
	struct files files;
	struct raw c;
	struct raw_queue *q;
	uint32_t row;
	uint32_t generation;
	uint64_t handles[HANDLES]; /* handles asked for */
	uint64_t exports[HANDLES];
};

static uint64_t any_handle(struct claimant *m)
{
	switch (hostile_below(m->h, 4)) {
	case 0:
		return hostile_random(m->h);
	case 1:
		return gm_handle_make(NEVER | (uint32_t)hostile_random(m->h),
				      (uint32_t)hostile_below(m->h, 4), m->row,
				      (uint32_t)hostile_below(m->h, HANDLES));
	default:
		return m->handles[hostile_below(m->h, HANDLES)];
	}
}

static uint64_t new_handle(struct claimant *m, uint32_t kind)
{
	uint32_t index = (uint32_t)hostile_below(m->h, HANDLES);
	uint64_t handle =
		gm_handle_make(++m->generation, kind,
			       kind == GM_BUFFER_DEVICE ? m->row : 0, index);

	m->handles[index] = handle;
	return handle;
}

static void ask_to_register(struct claimant *m)
{
	uint32_t file = (uint32_t)hostile_below(m->h, N_FILES);
	struct gm_register ask = {
		.handle = new_handle(m, GM_BUFFER_REGISTERED),
		.bytes = BYTES,
		.row = m->row,
		.flags = hostile_below(m->h, 2) ? GPUMAP_BUFFER_READ_ONLY : 0,
	};
	bool is_good = file == GOOD || (file <= READ_ONLY && ask.flags != 0);

	if (hostile_below(m->h, 4) == 0) {
		ask.at = hostile_random(m->h) >> hostile_below(m->h, 64);
		ask.bytes = hostile_random(m->h) >> hostile_below(m->h, 64);
		is_good = is_good && ask.at <= BYTES &&
			  ask.bytes <= BYTES - ask.at;
	}
	if (raw_register(&m->c, &ask, m->files.fd[file]) == 0 && !is_good)
		hostile_lapse(m->h, "file %u was registered, from %llu", file,
			      (unsigned long long)ask.at);
}

/* A file to load from: all files but the last two can be one. */
static void ask_to_read(struct claimant *m)
{
	uint32_t file = (uint32_t)hostile_below(m->h, N_FILES);
	struct gm_register ask = { .handle = new_handle(m, GM_BUFFER_FILE),
				   .row = m->row };
	bool is_good = file < SOCKET;

	if (hostile_below(m->h, 4) == 0) {
		ask.flags = (uint32_t)hostile_below(m->h, 4);
		ask.at = hostile_below(m->h, 2);
		ask.bytes = hostile_below(m->h, 2);
		is_good = is_good && !ask.flags && !ask.at && !ask.bytes;
	}
	if (raw_register(&m->c, &ask, m->files.fd[file]) == 0 && !is_good)
		hostile_lapse(m->h, "file %u was taken as one", file);
}

/* Try to cut an export off; its other holders must keep their memory.  On cards
 * nothing is tried: a driver's descriptor is no file, and the stand-in's
 * descriptor is its whole machine. */
static void spoil(struct claimant *m, int fd)
{
#ifdef STAGE_CUDA
	(void)m;
	(void)fd;
#else
	if (ftruncate(fd, 0) == 0)
		hostile_lapse(m->h, "an export was cut off");
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		  (off_t)BYTES);
#endif
}

static void ask_to_share(struct claimant *m)
{
	uint64_t *of = &m->exports[hostile_below(m->h, HANDLES)];
	struct gm_import ask = { .id = *of, .row = gm_export_row(*of) };
	struct gm_import_reply import;
	struct gm_export_reply export;
	int fd;

	switch (hostile_below(m->h, 4)) {
	case 0:
		if (raw_export(&m->c, any_handle(m), &export) == 0)
			*of = export.id;
		break;
	case 1:
		ask.id = hostile_random(m->h) >> hostile_below(m->h, 64);
		ask.handle = any_handle(m);
		raw_import(&m->c, &ask, &import, NULL);
		break;
	case 2:
		ask.handle = new_handle(m, GM_BUFFER_DEVICE);
		raw_import(&m->c, &ask, &import, NULL);
		break;
	default:
		if (raw_import(&m->c, &ask, &import, &fd) != 0 || fd < 0)
			break;
		spoil(m, fd);
		close(fd);
	}
}

static struct gm_entry any_job(struct claimant *m)
{
	static const uint8_t ops[] = { GPUMAP_OP_FILL,  GPUMAP_OP_COPY,
				       GPUMAP_OP_SCALE, GPUMAP_OP_ALLOC,
				       GPUMAP_OP_FREE,  GPUMAP_OP_LOAD };
	struct gm_entry entry =
		raw_entry(m->q, ops[hostile_below(m->h, sizeof(ops))]);

	entry.dst_buffer = any_handle(m);
	if (entry.op == GPUMAP_OP_FREE)
		return entry;
	entry.dtype = GPUMAP_DTYPE_U8;
	entry.n = 1 + hostile_below(m->h, BYTES);
	if (hostile_below(m->h, 8) == 0)
		entry.n = hostile_random(m->h) >> hostile_below(m->h, 64);
	if (entry.op == GPUMAP_OP_ALLOC) {
		entry.dst_buffer = new_handle(m, GM_BUFFER_DEVICE);
		entry.value =
			hostile_below(m->h, 2) ? GPUMAP_BUFFER_EXPORTABLE : 0;
		return entry;
	}
	if (entry.op == GPUMAP_OP_SCALE)
		entry.dtype = GPUMAP_DTYPE_F32;
	if (entry.op != GPUMAP_OP_FILL)
		entry.src_buffer = any_handle(m);
	if (entry.op == GPUMAP_OP_LOAD && hostile_below(m->h, 4) == 0)
		entry.src = hostile_random(m->h) >> hostile_below(m->h, 64);
	return entry;
}

static void ask_for_work(struct claimant *m)
{
	struct gm_entry entry = any_job(m);
	int32_t status = raw_do(&m->c, m->q, &entry);

	if (status == 0 && entry.op != GPUMAP_OP_ALLOC &&
	    (gm_handle_generation(entry.dst_buffer) & NEVER) &&
	    gm_handle_generation(entry.dst_buffer) > m->generation)
		hostile_lapse(m->h, "operation %u on a buffer that is none",
			      entry.op);
}

static void claims(struct hostile *h)
{
	static struct claimant m;

	m.h = h;
	files_open(&m.files);
	while ((m.q = hostile_session(h, &m.c, DEPTH, 0, RANGE)) != NULL) {
		uint64_t rounds = 1 + hostile_below(h, 200);

		m.row = (uint32_t)(m.q - m.c.row);
		while (rounds-- > 0 && hostile_goes_on(h) &&
		       !raw_is_over(&m.c)) {
			switch (hostile_below(h, 5)) {
			case 0:
				ask_to_register(&m);
				break;
			case 4:
				ask_to_read(&m);
				break;
			case 1:
				ask_to_share(&m);
				break;
			case 2:
				raw_forget(&m.c, any_handle(&m));
				break;
			default:
				ask_for_work(&m);
			}
			hostile_round(h);
		}
		if (raw_is_over(&m.c))
			h->score->ended++;
		raw_close(&m.c);
	}
	files_close(&m.files);
}

/* ---- holes ------------------------------------------------------------- */

struct hole {
	struct hostile hostile;
	int fd;
};

static void punch(void *arg)
{
	struct hole *hole = arg;
	uint64_t at = hostile_below(&hole->hostile, BYTES);

	if (fallocate(hole->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)at,
		      (off_t)(1 + hostile_below(&hole->hostile, BYTES - at))) !=
	    0)
		hostile_lapse(&hole->hostile, "no hole could be punched");
}

static void holes_in_files(struct hostile *h)
{
	uint32_t generation = 0;
	struct files files;
	struct raw_queue *q;
	struct raw c;

	files_open(&files);
	while ((q = hostile_session(h, &c, DEPTH, 0, RANGE)) != NULL) {
		struct hole hole = { *h, files.fd[GOOD] };
		struct gm_register ask = {
			.handle = gm_handle_make(++generation,
						 GM_BUFFER_REGISTERED, 0, 1),
			.bytes = BYTES,
			.row = (uint32_t)(q - c.row),
		};
		struct gm_entry fill = raw_entry(q, GPUMAP_OP_FILL);
		struct hostile_thread *thread = hostile_beside(punch, &hole);

		fill.dtype = GPUMAP_DTYPE_U8;
		fill.dst_buffer = ask.handle;
		fill.n = BYTES;
		h->random = hostile_random(h);
		while (hostile_goes_on(h) && !raw_is_over(&c) &&
		       raw_register(&c, &ask, hole.fd) == 0) {
			for (int i = 0; i < 16 && !raw_is_over(&c); i++)
				raw_do(&c, q, &fill);
			raw_forget(&c, ask.handle);
			hostile_round(h);
		}
		hostile_stop(thread);
		if (raw_is_over(&c))
			h->score->ended++;
		raw_close(&c);
	}
	files_close(&files);
}

const struct hostile_attack hostile_buffers[] = {
	{ "claims", claims, 0 },
	{ "holes in files", holes_in_files, 1 },
	{ NULL, NULL, 0 },
};
