/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/fuse.h"

#define FUSE_MAPS_DIRECT (UINT32_C(1) << 4) /* Linux 6.6 */
#define FUSE_HELD        64u

static void fuse_answer(int fd, uint64_t unique, int error, const void *body,
			size_t bytes)
{
	static char out[sizeof(struct fuse_out_header) + 2 * MIB];
	struct fuse_out_header header = {
		.len = (uint32_t)(sizeof(header) + (error ? 0 : bytes)),
		.error = error,
		.unique = unique,
	};

	memcpy(out, &header, sizeof(header));
	if (!error && bytes)
		memcpy(out + sizeof(header), body, bytes);
	if (write(fd, out, header.len) < 0 && errno == ENODEV)
		_exit(0);
}

static struct fuse_attr fuse_attr_of(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.size = node == 1 ? 0 : FUSE_FILE_BYTES,
		.mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644,
		.nlink = 1,
		.blksize = 4096,
	};
}

static void fuse_read(const struct fuse *f, uint64_t unique,
		      const struct fuse_read_in *in)
{
	static char body[2 * MIB];
	uint64_t n = in->size < sizeof(body) ? in->size : sizeof(body);

	if (f->orders->refuses_direct && (in->flags & O_DIRECT)) {
		fuse_answer(f->fd, unique, -EINVAL, NULL, 0);
		return;
	}
	if (in->offset >= FUSE_FILE_BYTES)
		n = 0;
	else if (n > FUSE_FILE_BYTES - in->offset)
		n = FUSE_FILE_BYTES - in->offset;
	if (in->offset + n > f->orders->fails_from) {
		if (f->orders->error)
			fuse_answer(f->fd, unique, f->orders->error, NULL, 0);
		else
			f->orders->unanswered++;
		return;
	}
	if (f->orders->most && n > f->orders->most)
		n = f->orders->most;
	load_fill(body, in->offset, n);
	for (uint64_t i = in->offset;
	     i < f->orders->head_bytes && i < in->offset + n; i++)
		body[i - in->offset] = f->orders->head[i];
	f->orders->n_read++;
	fuse_answer(f->fd, unique, 0, body, n);
}

/* Keeps a read for later.  Returns false for what is to be answered. */
static bool fuse_hold(const struct fuse *f, uint64_t unique,
		      const struct fuse_read_in *in)
{
	static struct fuse_read_in held[FUSE_HELD];
	static uint64_t of[FUSE_HELD];
	volatile struct fuse_orders *o = f->orders;

	if (in != NULL && o->holds && o->held < FUSE_HELD &&
	    in->offset + in->size > o->holds_from) {
		held[o->held] = *in;
		of[o->held] = unique;
		if (in->size > o->held_bytes)
			o->held_bytes = in->size;
		o->held++;
		return true;
	}
	while (!o->holds && o->held > 0) {
		o->held--;
		fuse_read(f, of[o->held], &held[o->held]);
	}
	return false;
}

static uint64_t fuse_interrupted(const char *body)
{
	struct fuse_interrupt_in in;

	memcpy(&in, body, sizeof(in));
	return in.unique;
}

static void fuse_serve_one(const struct fuse *f, const char *request)
{
	struct fuse_in_header in;
	const char *body = request + sizeof(in);
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
				      .minor = 31,
				      .max_write = 4096,
				      .max_readahead = 0,
				      .flags = FUSE_MAX_PAGES,
				      .max_pages = 256 };
	struct fuse_entry_out entry = { .nodeid = 2, .attr = fuse_attr_of(2) };
	struct fuse_open_out open_out = { .open_flags = f->orders->open_flags };
	struct fuse_attr_out attr;

	memcpy(&in, request, sizeof(in));
	attr = (struct fuse_attr_out){ .attr = fuse_attr_of(in.nodeid) };
	if (fuse_hold(f, in.unique,
		      in.opcode == FUSE_READ ? (const void *)body : NULL))
		return;
	switch (in.opcode) {
	case FUSE_INIT:
		if (f->orders->maps_direct) {
			init.flags |= FUSE_INIT_EXT;
			init.flags2 = FUSE_MAPS_DIRECT;
		}
		fuse_answer(f->fd, in.unique, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		fuse_answer(f->fd, in.unique,
			    strcmp(body, "file") ? -ENOENT : 0, &entry,
			    sizeof(entry));
		break;
	case FUSE_GETATTR:
		fuse_answer(f->fd, in.unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		fuse_answer(f->fd, in.unique, 0, &open_out, sizeof(open_out));
		break;
	case FUSE_WRITE:
		f->orders->n_written++;
		break;
	case FUSE_READ:
		fuse_read(f, in.unique, (const void *)body);
		break;
	case FUSE_INTERRUPT:
		if (f->orders->interruptible) {
			f->orders->n_interrupted++;
			fuse_answer(f->fd, fuse_interrupted(body), -EINTR, NULL,
				    0);
		}
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		break; /* no answer belongs to these */
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		fuse_answer(f->fd, in.unique, 0, NULL, 0);
		break;
	default:
		fuse_answer(f->fd, in.unique, -ENOSYS, NULL, 0);
	}
}

static void fuse_serve(const struct fuse *f)
{
	static union {
		struct fuse_in_header align;
		char bytes[1 << 20];
	} request;

	for (;;) {
		ssize_t n = read(f->fd, &request, sizeof(request));

		if (n > 0)
			fuse_serve_one(f, request.bytes);
		else if (n < 0 && errno == ENODEV)
			_exit(0);
	}
}

void fuse_end(struct fuse *f)
{
	umount2(f->folder, MNT_DETACH);
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	rmdir(f->folder);
	munmap((void *)(uintptr_t)f->orders, sizeof(*f->orders));
}

bool fuse_begin_as(struct fuse *f, const char *folder, bool maps_direct)
{
	char options[128];

	snprintf(f->folder, sizeof(f->folder), "%s", folder);
	f->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (f->fd < 0 || mkdir(f->folder, 0755) != 0)
		return false;
	f->orders = mmap(NULL, sizeof(*f->orders), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (f->orders == MAP_FAILED)
		exit(99);
	f->orders->fails_from = UINT64_MAX;
	f->orders->maps_direct = maps_direct;
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 f->fd);
	if (mount("test", f->folder, "fuse.test", MS_NOSUID | MS_NODEV,
		  options) != 0) {
		rmdir(f->folder);
		return false;
	}
	f->pid = fork();
	if (f->pid == 0)
		fuse_serve(f);
	close(f->fd);
	return true;
}

bool fuse_begin(struct fuse *f, const char *folder)
{
	return fuse_begin_as(f, folder, false);
}

int fuse_open_for(const struct fuse *f, int mode)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/file", f->folder);
	return open(path, mode | O_CLOEXEC);
}

int fuse_open(const struct fuse *f)
{
	return fuse_open_for(f, O_RDONLY);
}
