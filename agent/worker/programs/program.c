/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/programs/program.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/common/memory_file.h"
#include "agent/common/write_all.h"
#include "agent/worker/programs/code_validate.h"
#include "shm/queue.h"

#define ERRNO_MAX  4095

#define COPY_BYTES 65536

static bool is_ready;

/* Program that is being loaded: only one thread loads. */
static const struct gm_program *volatile loading;

/* ---- answers to open() -------------------------------------------------- */

#if defined(__x86_64__)
#define CALL_PATH(uc)   ((uc)->uc_mcontext.gregs[REG_RSI])
#define CALL_SET(uc, v) ((uc)->uc_mcontext.gregs[REG_RAX] = (v))
#elif defined(__aarch64__)
#define CALL_PATH(uc)   ((uc)->uc_mcontext.regs[1])
#define CALL_SET(uc, v) ((uc)->uc_mcontext.regs[0] = (unsigned long long)(v))
#endif

#ifdef CALL_SET
/* Only trapped calls get here, and among them the loader makes openat() only.
 * The path is read directly: a caller that passes another path can read it,
 * too. */
static void on_call(int sig, siginfo_t *info, void *context)
{
	const struct gm_program *program = loading;
	ucontext_t *uc = context;
	int saved = errno;
	long ret = -EACCES;

	(void)sig;
	if (info->si_syscall == SYS_openat && program &&
	    strcmp((const char *)CALL_PATH(uc), program->path) == 0) {
		ret = fcntl(program->fd, F_DUPFD_CLOEXEC, 0);
		if (ret < 0)
			ret = -errno;
	}
	CALL_SET(uc, ret);
	errno = saved;
}

static int answer_calls(void)
{
	/* SA_NODEFER: a program that misuses a path may trap again
	 * inside such a call. */
	struct sigaction act = { .sa_sigaction = on_call,
				 .sa_flags = SA_SIGINFO | SA_NODEFER };

	return sigaction(SIGSYS, &act, NULL) == 0 ? 0 : -errno;
}
#else
static int answer_calls(void)
{
	return -EOPNOTSUPP;
}
#endif

int gm_program_init(void)
{
	int rc = answer_calls();

	if (rc < 0)
		return rc;
	/* Load the libraries that programs may be linked with, while files can
	 * be opened.  Some machines lack some of them. */
	dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
	dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_GLOBAL);
	is_ready = true;
	return 0;
}

/* ---- loading and unloading ---------------------------------------------- */

/* Strip the internal path from the text of dlerror(). */
static void explain(const struct gm_program *program,
		    char ret_why[GM_PROGRAM_WHY_BYTES])
{
	const char *text = dlerror();
	size_t n = strlen(program->path);

	if (!text)
		text = "the loader gives no reason";
	if (strncmp(text, program->path, n) == 0)
		text += n + strspn(text + n, ": ");
	snprintf(ret_why, GM_PROGRAM_WHY_BYTES, "it cannot be loaded: %s",
		 text);
}

static int check(const struct gpumap_program *entry,
		 char ret_why[GM_PROGRAM_WHY_BYTES])
{
	if (!entry)
		snprintf(ret_why, GM_PROGRAM_WHY_BYTES,
			 "it has no gpumap_program: end it with "
			 "GPUMAP_PROGRAM() of gpumap/program.h");
	else if (entry->abi != GPUMAP_PROGRAM_ABI || entry->reserved)
		snprintf(ret_why, GM_PROGRAM_WHY_BYTES,
			 "it is made for version %u of gpumap/program.h, this "
			 "agent has %u: compile it anew",
			 entry->abi, GPUMAP_PROGRAM_ABI);
	else if (!entry->run)
		snprintf(ret_why, GM_PROGRAM_WHY_BYTES,
			 "its gpumap_program has no function");
	else
		return 0;
	return -ENOEXEC;
}

/* Copy the file.  Other workers read the same file, at a shared offset, and a
 * write into the file would change running code. */
static int copy(int fd, int to)
{
	char bytes[COPY_BYTES];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		int rc = gm_write_all(to, bytes, (size_t)n);

		if (rc < 0)
			return rc;
		at += n;
	}
	if (n < 0)
		return -errno;
	return lseek(to, 0, SEEK_SET) == 0 ? 0 : -errno;
}

static int take(struct gm_program *program, int fd, char *ret_why)
{
	int to = gm_memory_file("gpumap-program");
	int rc = to < 0 ? to : copy(fd, to);

	close(fd);
	if (rc < 0) {
		snprintf(ret_why, GM_PROGRAM_WHY_BYTES,
			 "its file cannot be read: %s", strerror(-rc));
		if (to >= 0)
			close(to);
		return rc;
	}
	program->fd = to;
	snprintf(program->path, sizeof(program->path), "/proc/self/fd/%d", to);
	return 0;
}

int gm_program_load(int fd, struct gm_program **ret_program,
		    char ret_why[GM_PROGRAM_WHY_BYTES])
{
	struct gm_program *program = calloc(1, sizeof(*program));
	int rc;

	ret_why[0] = '\0';
	if (!program || !is_ready) {
		free(program);
		close(fd);
		return is_ready ? -ENOMEM : -EOPNOTSUPP;
	}
	rc = take(program, fd, ret_why);
	if (rc < 0) {
		free(program);
		return rc;
	}
	loading = program;
	program->handle = dlopen(program->path, RTLD_NOW | RTLD_LOCAL);
	loading = NULL;
	if (!program->handle) {
		explain(program, ret_why);
		rc = -ENOEXEC;
	} else {
		program->entry = dlsym(program->handle, "gpumap_program");
		rc = check(program->entry, ret_why);
	}
	if (rc < 0) {
		gm_program_unload(NULL, program);
		return rc;
	}
	*ret_program = program;
	return 0;
}

/* Read a whole file and append a NUL.  The file cannot change: it is sealed, or
 * no other user can write it. */
static int read_image(int fd, char **ret_image, size_t *ret_bytes)
{
	struct stat st;
	ssize_t n = 1;
	size_t at = 0;
	char *image;

	if (fstat(fd, &st) < 0)
		return -errno;
	image = malloc((size_t)st.st_size + 1);
	if (!image)
		return -ENOMEM;
	for (; n > 0 && at < (size_t)st.st_size; at += (size_t)n) {
		n = pread(fd, image + at, (size_t)st.st_size - at, (off_t)at);
		if (n < 0) {
			n = -errno;
			free(image);
			return (int)n;
		}
	}
	image[at] = '\0';
	*ret_image = image;
	*ret_bytes = at;
	return 0;
}

static int load_kernel(struct gm_backend_device *dev,
		       const struct gm_kernel_image *image,
		       struct gm_program **ret_program,
		       char ret_why[GM_PROGRAM_WHY_BYTES])
{
	const char *why =
		gm_code_check(dev->backend->kind, image->bytes, image->n);
	struct gm_program *program;
	int rc;

	if (why) {
		snprintf(ret_why, GM_PROGRAM_WHY_BYTES, "%s", why);
		return -ENOEXEC;
	}
	program = calloc(1, sizeof(*program));
	if (!program)
		return -ENOMEM;
	rc = dev->backend->load_kernel(dev, image, &program->kernel, ret_why);
	if (rc < 0)
		free(program);
	else
		*ret_program = program;
	return rc;
}

int gm_program_load_image(struct gm_backend_device *dev, int fd,
			  const char *kernel, struct gm_program **ret_program,
			  char ret_why[GM_PROGRAM_WHY_BYTES])
{
	size_t bytes = 0;
	char *image = NULL;
	int rc = read_image(fd, &image, &bytes);

	close(fd);
	ret_why[0] = '\0';
	if (rc < 0) {
		snprintf(ret_why, GM_PROGRAM_WHY_BYTES,
			 "its image cannot be read: %s", strerror(-rc));
		return rc;
	}
	rc = load_kernel(dev, &(struct gm_kernel_image){ image, bytes, kernel },
			 ret_program, ret_why);
	free(image);
	return rc;
}

/* Is the program unloaded?  A library may refuse unloading, and keeps its
 * descriptor then, because its path stands for it. */
static bool has_gone(const struct gm_program *program)
{
	void *still = dlopen(program->path, RTLD_NOW | RTLD_NOLOAD);

	if (still)
		dlclose(still);
	return !still;
}

void gm_program_unload(struct gm_backend_device *dev,
		       struct gm_program *program)
{
	if (!program)
		return;
	if (program->kernel) {
		dev->backend->unload_kernel(dev, program->kernel);
		free(program);
		return;
	}
	if (program->handle)
		dlclose(program->handle);
	if (has_gone(program))
		close(program->fd);
	free(program);
}

/* ---- running ------------------------------------------------------------ */

int gm_program_run(const struct gm_program *program, const struct gm_task *task,
		   uint32_t row)
{
	alignas(16) unsigned char params[GM_PARAMS_MAX];
	struct gpumap_program_tile tile = {
		.size = sizeof(tile),
		.row = row,
		.dtype = task->dtype,
		.n = task->n,
		.dst = task->dst,
		.src = task->src,
		.dst_item_bytes = task->pattern >> 32,
		.src_item_bytes = (uint32_t)task->pattern,
	};
	int rc;

	if (task->mask_n) {
		memcpy(params, task->mask, task->mask_n);
		tile.params = params;
		tile.params_bytes = task->mask_n;
	}
	rc = program->entry->run(&tile);
	return rc > 0 || rc < -ERRNO_MAX ? -EIO : rc;
}
