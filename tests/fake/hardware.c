/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/fake/hardware.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BOARD_MAGIC UINT64_C(0x65736c6166756d70)

/* Bytes that are only locked, never written: far behind all data. */
#define LOCK_PROCESS (INT64_C(1) << 61)
#define LOCK_OBJECT  (INT64_C(1) << 62)

/*
 * Whose reference a description is, its position says: that is all of it that
 * a stranger can see.  Small enough for any file system.
 */
#define POSITION_BASE (INT64_C(1) << 40)

uint64_t fake_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static struct flock lock_of(int64_t at, short type)
{
	return (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1
	};
}

static int hold(int fd, int64_t at)
{
	struct flock lock = lock_of(at, F_RDLCK);

	return fcntl(fd, F_OFD_SETLK, &lock) ? -errno : 0;
}

/* Whether a description other than @fd's holds the byte. */
static bool is_held(int fd, int64_t at)
{
	struct flock lock = lock_of(at, F_WRLCK);

	return fcntl(fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

/* A description of its own of the same file. */
static int open_again(int fd)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	return again < 0 ? -errno : again;
}

int fake_hardware_make(int fd, const struct fake_gpu *gpus, uint32_t n)
{
	uint64_t bytes = round_up(sizeof(struct fake_board), FAKE_GRANULE);
	struct fake_board *board;
	pthread_mutexattr_t attr;

	if (n > FAKE_GPUS)
		return -E2BIG;
	if (ftruncate(fd, (off_t)bytes))
		return -errno;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED,
		     fd, 0);
	if (board == MAP_FAILED)
		return -errno;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&board->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	board->n_gpus = n;
	board->end = bytes;
	if (n)
		memcpy(board->gpus, gpus, n * sizeof(gpus[0]));
	board->magic = BOARD_MAGIC;
	munmap(board, sizeof(*board));
	return 0;
}

int fake_hardware_open(const char *path, struct fake_hardware *ret_hw)
{
	struct fake_hardware hw = { 0 };
	struct stat st;

	hw.fd = open(path, O_RDWR | O_CLOEXEC);
	if (hw.fd < 0)
		return -errno;
	if (fstat(hw.fd, &st) || !S_ISREG(st.st_mode) ||
	    (size_t)st.st_size < sizeof(*hw.board))
		goto fail;
	hw.board = mmap(NULL, sizeof(*hw.board), PROT_READ | PROT_WRITE,
			MAP_SHARED, hw.fd, 0);
	if (hw.board == MAP_FAILED)
		goto fail;
	if (hw.board->magic != BOARD_MAGIC) {
		munmap(hw.board, sizeof(*hw.board));
		goto fail;
	}
	*ret_hw = hw;
	return 0;
fail:
	close(hw.fd);
	return -ENODEV;
}

static struct fake_process *free_process(struct fake_hardware *hw)
{
	for (size_t i = 0; i < FAKE_PROCESSES; i++)
		if (hw->board->processes[i].serial == 0)
			return &hw->board->processes[i];
	return NULL;
}

/* NVML tells the pids of the initial namespace, to which /proc belongs. */
static pid_t own_pid(void)
{
	char text[16];
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return n > 0 ? (pid_t)atoi(text) : getpid();
}

static int join(struct fake_hardware *hw, bool is_nvml)
{
	uint64_t serial;
	int r;

	fake_sweep(hw);
	hw->self = free_process(hw);
	if (!hw->self)
		return -EUSERS;
	serial = ++hw->board->serials;
	r = hold(hw->fd, LOCK_PROCESS + (int64_t)serial);
	if (r)
		return r;
	*hw->self = (struct fake_process){ .serial = serial,
					   .pid = own_pid(),
					   .is_nvml = is_nvml };
	return 0;
}

int fake_hardware_join(bool is_nvml, struct fake_hardware *ret_hw)
{
	const char *path = getenv("GPUMAP_FAKE_HARDWARE");
	const char *plan = getenv("GPUMAP_FAKE_PLAN");
	const char *where;
	struct fake_hardware hw;
	int r;

	if (!path)
		return -ENODEV;
	r = fake_hardware_open(path, &hw);
	if (r)
		return r;
	fake_lock(&hw);
	r = plan ? fake_plan_apply(&hw, plan, true, &where) : 0;
	if (r)
		fprintf(stderr, "stand-in: no such fault: %s\n", where);
	else
		r = join(&hw, is_nvml);
	fake_unlock(&hw);
	if (r)
		fake_hardware_leave(&hw);
	else
		*ret_hw = hw;
	return r;
}

void fake_hardware_leave(struct fake_hardware *hw)
{
	if (hw->self) {
		fake_lock(hw);
		memset(hw->self, 0, sizeof(*hw->self));
		fake_unlock(hw);
	}
	munmap(hw->board, sizeof(*hw->board));
	close(hw->fd);
	*hw = (struct fake_hardware){ .fd = -1 };
}

void fake_lock(struct fake_hardware *hw)
{
	/* A holder that died half-way leaves a wrong sum, which a sweep
	 * corrects. */
	if (pthread_mutex_lock(&hw->board->mutex) == EOWNERDEAD)
		pthread_mutex_consistent(&hw->board->mutex);
}

void fake_unlock(struct fake_hardware *hw)
{
	pthread_mutex_unlock(&hw->board->mutex);
}

void fake_sweep(struct fake_hardware *hw)
{
	struct fake_board *board = hw->board;

	for (size_t i = 0; i < FAKE_PROCESSES; i++) {
		struct fake_process *p = &board->processes[i];

		if (p->serial && p != hw->self &&
		    !is_held(hw->fd, LOCK_PROCESS + (int64_t)p->serial))
			memset(p, 0, sizeof(*p));
	}
	for (size_t i = 0; i < FAKE_OBJECTS; i++) {
		struct fake_object *o = &board->objects[i];

		if (!o->serial ||
		    is_held(hw->fd, LOCK_OBJECT + (int64_t)o->serial))
			continue;
		fallocate(hw->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)o->offset, (off_t)o->bytes);
		memset(o, 0, sizeof(*o));
	}
}

static uint64_t used_of(const struct fake_board *board, uint32_t gpu)
{
	uint64_t used = 0;

	for (size_t i = 0; i < FAKE_PROCESSES; i++)
		if (board->processes[i].serial)
			used += board->processes[i].used[gpu];
	for (size_t i = 0; i < FAKE_OBJECTS; i++)
		if (board->objects[i].serial && board->objects[i].gpu == gpu)
			used += board->objects[i].bytes;
	return used;
}

/* A split card's use includes that of its instances. */
uint64_t fake_free_bytes(struct fake_hardware *hw, uint32_t gpu)
{
	const struct fake_fault *fault = fake_fault(hw, FAKE_MEMORY, gpu);
	const struct fake_board *board = hw->board;
	uint64_t used = 0, left;

	fake_sweep(hw);
	for (uint32_t g = 0; g < board->n_gpus; g++)
		if (g == gpu || board->gpus[g].parent == gpu)
			used += used_of(board, g);

	left = board->gpus[gpu].total - board->gpus[gpu].reserved;
	if (fault && fault->value < left)
		left = fault->value;
	return used < left ? left - used : 0;
}

bool fake_charge(struct fake_hardware *hw, uint32_t gpu, uint64_t bytes)
{
	if (bytes > fake_free_bytes(hw, gpu))
		return false;
	hw->self->used[gpu] += bytes;
	return true;
}

void fake_refund(struct fake_hardware *hw, uint32_t gpu, uint64_t bytes)
{
	hw->self->used[gpu] -= bytes;
}

/* A new description that is a reference to the object of @ref. */
static int refer(struct fake_hardware *hw, struct fake_reference *ref)
{
	int fd = open_again(hw->fd), r;

	if (fd < 0)
		return fd;
	r = hold(fd, LOCK_OBJECT + (int64_t)ref->serial);
	if (!r && lseek(fd, POSITION_BASE + (off_t)ref->serial, SEEK_SET) < 0)
		r = -errno;
	if (r)
		close(fd);
	else
		ref->fd = fd;
	return r;
}

static struct fake_object *object_of(struct fake_hardware *hw, uint64_t serial)
{
	for (size_t i = 0; i < FAKE_OBJECTS; i++)
		if (hw->board->objects[i].serial == serial)
			return &hw->board->objects[i];
	return NULL;
}

/* The new owner must not rely on the old owner's bytes, nor on zeros. */
static void litter(struct fake_hardware *hw, uint64_t offset, uint64_t bytes)
{
	uint8_t page[4096];
	ssize_t n;

	memset(page, 0xa5, sizeof(page));
	n = pwrite(hw->fd, page, sizeof(page), (off_t)offset);
	if (n > 0)
		n = pwrite(hw->fd, page, sizeof(page),
			   (off_t)(offset + bytes - sizeof(page)));
	(void)n;
}

int fake_object_make(struct fake_hardware *hw, uint32_t gpu, uint64_t bytes,
		     uint32_t handle_types, struct fake_reference *ret_ref)
{
	struct fake_reference ref = { .gpu = gpu,
				      .handle_types = handle_types,
				      .bytes = bytes };
	struct fake_object *object;
	int r;

	if (bytes > fake_free_bytes(hw, gpu))
		return -ENOMEM;
	object = object_of(hw, 0);
	if (!object)
		return -ENOMEM;

	ref.serial = ++hw->board->serials;
	ref.offset = hw->board->end;
	if (ftruncate(hw->fd, (off_t)(ref.offset + bytes)))
		return -errno;
	r = refer(hw, &ref);
	if (r)
		return r;
	hw->board->end += round_up(bytes, FAKE_GRANULE);
	*object = (struct fake_object){ .serial = ref.serial,
					.gpu = gpu,
					.handle_types = handle_types,
					.bytes = bytes,
					.offset = ref.offset };
	litter(hw, ref.offset, bytes);
	*ret_ref = ref;
	return 0;
}

int fake_object_again(struct fake_hardware *hw,
		      const struct fake_reference *ref,
		      struct fake_reference *ret_ref)
{
	struct fake_reference again = *ref;
	int r = refer(hw, &again);

	if (!r)
		*ret_ref = again;
	return r;
}

int fake_object_from(struct fake_hardware *hw, int fd,
		     struct fake_reference *ret_ref)
{
	const struct fake_object *object;
	struct fake_reference ref = { 0 };
	struct stat ours, theirs;
	off_t at = lseek(fd, 0, SEEK_CUR);
	int r;

	if (fstat(hw->fd, &ours) || fstat(fd, &theirs) ||
	    ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev ||
	    at <= POSITION_BASE)
		return -EINVAL;
	object = object_of(hw, (uint64_t)(at - POSITION_BASE));
	if (!object)
		return -EINVAL;
	ref.serial = object->serial;
	ref.gpu = object->gpu;
	ref.handle_types = object->handle_types;
	ref.bytes = object->bytes;
	ref.offset = object->offset;
	r = refer(hw, &ref);
	if (!r)
		*ret_ref = ref;
	return r;
}

void fake_object_drop(struct fake_reference *ref)
{
	close(ref->fd);
	*ref = (struct fake_reference){ .fd = -1 };
}

void fake_xid_post(struct fake_hardware *hw, uint32_t gpu, uint32_t number,
		   int32_t pid)
{
	struct fake_board *board = hw->board;

	board->xids[board->n_xids % FAKE_XIDS] =
		(struct fake_xid){ .gpu = gpu, .number = number, .pid = pid };
	board->n_xids++;
}

/* Whether a fault of now is this card's or instance's: a card that is lost
 * takes its instances along, what it tells of is its own. */
static bool is_meant(const struct fake_board *board, const struct fake_fault *f,
		     uint32_t gpu)
{
	uint32_t parent = board->gpus[gpu].parent;

	if (f->kind == FAKE_XID || f->kind == FAKE_ECC)
		return f->gpu == gpu ||
		       (f->gpu == FAKE_ANY_GPU && parent == gpu);
	return f->gpu == FAKE_ANY_GPU || f->gpu == gpu || f->gpu == parent;
}

static void do_now(struct fake_hardware *hw, const struct fake_fault *f)
{
	struct fake_board *board = hw->board;

	for (uint32_t gpu = 0; gpu < board->n_gpus; gpu++) {
		if (!is_meant(board, f, gpu))
			continue;
		if (f->kind == FAKE_LOST || f->kind == FAKE_BACK)
			board->gpus[gpu].is_lost = f->kind == FAKE_LOST;
		else if (f->kind == FAKE_MODE)
			board->gpus[gpu].compute_mode = (uint32_t)f->value;
		else if (f->kind == FAKE_XID)
			fake_xid_post(hw, gpu, (uint32_t)f->value, 0);
		else if (f->kind == FAKE_ECC)
			fake_xid_post(hw, gpu, 0, 0);
	}
}

int fake_plan_apply(struct fake_hardware *hw, const char *text, bool is_own,
		    const char **ret_where)
{
	struct fake_plan *plan = is_own ? &hw->plan : &hw->board->plan;
	uint32_t n = plan->n_faults;
	int r = fake_plan_add(plan, text, ret_where);

	for (uint32_t i = n; i < plan->n_faults; i++)
		if (plan->faults[i].on == FAKE_ALWAYS)
			do_now(hw, &plan->faults[i]);
	return r;
}

void fake_uuid_print(const struct fake_gpu *gpu, char text[FAKE_UUID_TEXT])
{
	int n = snprintf(text, FAKE_UUID_TEXT, "%s-",
			 fake_is_part(gpu) ? "MIG" : "GPU");

	for (int i = 0; i < 16; i++)
		n += snprintf(text + n, (size_t)(FAKE_UUID_TEXT - n), "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      gpu->uuid[i]);
}

/* A driver counts its capabilities from 3: 15 GPU instances of each card, each
 * with eight compute instances behind it. */
static uint32_t capability(const struct fake_gpu *gpu, bool is_compute)
{
	uint32_t gi = 3 + 135 * gpu->minor + 9 * gpu->gi;

	return is_compute ? gi + 1 + gpu->ci : gi;
}

bool fake_node(const char *dev, const struct fake_gpu *gpu, int k,
	       char ret_path[FAKE_NODE_BYTES])
{
	if (k > 0 && !fake_is_part(gpu))
		return false;
	if (k == 0)
		snprintf(ret_path, FAKE_NODE_BYTES, "%s/nvidia%u", dev,
			 gpu->minor);
	else
		snprintf(ret_path, FAKE_NODE_BYTES,
			 "%s/nvidia-caps/nvidia-cap%u", dev,
			 capability(gpu, k == 2));
	return true;
}

void fake_note(struct fake_hardware *hw, const char *line)
{
	struct fake_board *board = hw->board;

	if (board->n_notes < FAKE_NOTES)
		snprintf(board->notes[board->n_notes], sizeof(board->notes[0]),
			 "%s", line);
	board->n_notes++;
}

static const struct fake_fault *find(const struct fake_plan *plan,
				     enum fake_fault_kind kind,
				     enum fake_fault_on on, uint64_t nth,
				     uint32_t gpu)
{
	/* The last word counts. */
	for (uint32_t i = plan->n_faults; i-- > 0;) {
		const struct fake_fault *f = &plan->faults[i];

		if ((kind == FAKE_NOTHING || f->kind == kind) && f->on == on &&
		    (on == FAKE_ALWAYS || f->nth == nth) &&
		    (f->gpu == FAKE_ANY_GPU || f->gpu == gpu))
			return f;
	}
	return NULL;
}

const struct fake_fault *fake_fault(struct fake_hardware *hw,
				    enum fake_fault_kind kind, uint32_t gpu)
{
	const struct fake_fault *f = find(&hw->plan, kind, FAKE_ALWAYS, 0, gpu);

	return f ? f : find(&hw->board->plan, kind, FAKE_ALWAYS, 0, gpu);
}

const struct fake_fault *fake_fault_of(struct fake_hardware *hw,
				       enum fake_fault_kind kind, uint32_t gpu,
				       uint64_t value)
{
	const struct fake_plan *plans[] = { &hw->plan, &hw->board->plan };

	for (int p = 0; p < 2; p++) {
		for (uint32_t i = plans[p]->n_faults; i-- > 0;) {
			const struct fake_fault *f = &plans[p]->faults[i];

			if (f->kind == kind && f->value == value &&
			    (f->gpu == FAKE_ANY_GPU || f->gpu == gpu))
				return f;
		}
	}
	return NULL;
}

bool fake_is_missing(struct fake_hardware *hw, const char *symbol)
{
	const struct fake_plan *plans[] = { &hw->plan, &hw->board->plan };

	for (int p = 0; p < 2; p++)
		for (uint32_t i = 0; i < plans[p]->n_faults; i++)
			if (plans[p]->faults[i].kind == FAKE_SYMBOL &&
			    strcmp(plans[p]->faults[i].name, symbol) == 0)
				return true;
	return false;
}

const struct fake_fault *fake_fault_on(struct fake_hardware *hw,
				       enum fake_fault_on on, uint64_t nth,
				       uint32_t gpu)
{
	const struct fake_fault *f =
		find(&hw->plan, FAKE_NOTHING, on, nth, gpu);

	return f ? f : find(&hw->board->plan, FAKE_NOTHING, on, nth, gpu);
}
