/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stand-in - run a program on a machine whose cards are not there.
 *
 *	stand-in run [-n NODE] [-p PLAN] PROGRAM [ARGUMENT...]
 *		with a machine of its own, which goes with it; fails where the
 *		program does, and where something of a card was left behind
 *	stand-in make [-n NODE] [-p PLAN] [-d FOLDER] FILE
 *		for $GPUMAP_FAKE_HARDWARE; with device nodes in FOLDER
 *	stand-in plan FILE FAULTS
 *		add faults to a running machine
 *	stand-in show FILE
 *		who uses how much of it, and what was left behind
 *	stand-in linger PID NANOSECONDS
 *		of the driver: let a process take long to die
 */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fake/linger.h"
#include "tests/fake/machine.h"

struct options {
	const char *node, *plan, *dev;
};

static int usage(void)
{
	fprintf(stderr, "usage: stand-in run [-n NODE] [-p PLAN] PROGRAM...\n"
			"       stand-in make [-n NODE] [-p PLAN] [-d FOLDER] "
			"FILE\n"
			"       stand-in plan FILE FAULTS\n"
			"       stand-in show FILE\n");
	return 2;
}

/* The libraries lie beside this program, where libtool puts them. */
static int set_library_path(void)
{
	const char *old = getenv("LD_LIBRARY_PATH");
	char self[PATH_MAX], path[2 * PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return -errno;
	self[n] = '\0';
	snprintf(path, sizeof(path), "%s/.libs%s%s", dirname(self),
		 old ? ":" : "", old ? old : "");
	return setenv("LD_LIBRARY_PATH", path, 1) ? -errno : 0;
}

static void become(const char *hardware, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setenv("GPUMAP_FAKE_HARDWARE", hardware, 1) || set_library_path())
		_exit(127);
	execvp(argv[0], argv);
	fprintf(stderr, "stand-in: %s: %m\n", argv[0]);
	_exit(127);
}

static unsigned int notes(const char *path)
{
	struct fake_hardware hw;
	unsigned int n;

	if (fake_hardware_open(path, &hw))
		return 1;
	n = hw.board->n_notes;
	for (unsigned int i = 0; i < n && i < FAKE_NOTES; i++)
		printf("# stand-in: %s\n", hw.board->notes[i]);
	fake_hardware_leave(&hw);
	return n;
}

/* A memfd: whatever happens to us, nothing stays. */
static int run(const struct options *options, char **argv)
{
	int fd = memfd_create("stand-in", MFD_CLOEXEC), status;
	char hardware[64];
	pid_t pid;

	if (fd < 0 || fake_machine_make(fd, options->node, options->plan, NULL))
		return 1;
	snprintf(hardware, sizeof(hardware), "/proc/%d/fd/%d", getpid(), fd);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		become(hardware, argv);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "stand-in: %s ended by signal %d\n", argv[0],
			WTERMSIG(status));
		return 128 + WTERMSIG(status);
	}
	return WEXITSTATUS(status) ? WEXITSTATUS(status) : notes(hardware) != 0;
}

static int make(const struct options *options, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0) {
		fprintf(stderr, "stand-in: %s: %m\n", path);
		return 1;
	}
	if (!fake_machine_make(fd, options->node, options->plan, options->dev))
		return 0;
	unlink(path);
	return 1;
}

static int open_machine(const char *path, struct fake_hardware *ret_hw)
{
	int r = fake_hardware_open(path, ret_hw);

	if (r)
		fprintf(stderr, "stand-in: %s: %s\n", path, strerror(-r));
	return r;
}

static int plan(const char *path, const char *text)
{
	struct fake_hardware hw;
	const char *where;
	int r;

	if (open_machine(path, &hw))
		return 1;
	fake_lock(&hw);
	r = fake_plan_apply(&hw, text, false, &where);
	fake_unlock(&hw);
	if (r)
		fprintf(stderr, "stand-in: no such fault: %s\n", where);
	fake_hardware_leave(&hw);
	return r != 0;
}

static int show(const char *path)
{
	struct fake_hardware hw;

	if (open_machine(path, &hw))
		return 1;
	fake_lock(&hw);
	for (uint32_t i = 0; i < hw.board->n_gpus; i++) {
		const struct fake_gpu *gpu = &hw.board->gpus[i];

		printf("row=%u parent=%u name=\"%s\" total=%lu free=%lu "
		       "launches=%lu "
		       "copies=%lu lost=%d place=%04x:%02x:%02x.0 uuid=",
		       i, gpu->parent, gpu->name, gpu->total,
		       fake_free_bytes(&hw, i), gpu->launches, gpu->copies,
		       gpu->is_lost, gpu->domain, gpu->bus, gpu->device);
		for (int k = 0; k < 16; k++)
			printf("%02x%s", gpu->uuid[k], k < 15 ? "" : "\n");
	}
	for (size_t i = 0; i < FAKE_PROCESSES; i++) {
		const struct fake_process *p = &hw.board->processes[i];

		if (p->serial)
			printf("pid=%d nvml=%d holds=%#x\n", p->pid, p->is_nvml,
			       p->holds);
	}
	fake_unlock(&hw);
	for (uint32_t i = 0; i < hw.board->n_notes && i < FAKE_NOTES; i++)
		printf("note=\"%s\"\n", hw.board->notes[i]);
	fake_hardware_leave(&hw);
	return 0;
}

int main(int argc, char **argv)
{
	struct options options = { .node = getenv("GPUMAP_FAKE_NODE") };
	const char *verb = argc > 1 ? argv[1] : "";
	int c;

	if (strcmp(verb, "plan") == 0 && argc == 4)
		return plan(argv[2], argv[3]);
	if (strcmp(verb, "show") == 0 && argc == 3)
		return show(argv[2]);
	if (strcmp(verb, "linger") == 0 && argc == 4)
		return fake_linger(atoi(argv[2]), strtoull(argv[3], NULL, 10));

	optind = 2;
	while ((c = getopt(argc, argv, "+n:p:d:")) != -1) {
		if (c == 'n')
			options.node = optarg;
		else if (c == 'p')
			options.plan = optarg;
		else if (c == 'd')
			options.dev = optarg;
		else
			return usage();
	}
	if (!options.node || optind >= argc)
		return usage();
	if (strcmp(verb, "run") == 0)
		return run(&options, argv + optind);
	if (strcmp(verb, "make") == 0 && optind == argc - 1)
		return make(&options, argv[optind]);
	return usage();
}
