/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* processes: what counts of NVML's answers, and whose it is. */

#include "agent/probe/processes.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/support/sysfs_tree.h"

#define PIDS   "proc/self/ns/pid"
#define UNTOLD UINT64_MAX

static struct gm_processes p;
static struct gm_probe_wire note;

/* ---- an NVML of the test's own ------------------------------------------- */

static struct {
	gm_nvml_result result;
	unsigned int n;
	struct gm_nvml_process of[2 * GM_PROBE_PROCESSES];
} answers[2];

static unsigned int n_asked;

static gm_nvml_result answer(struct nvmlDevice_st *dev, unsigned int *n,
			     struct gm_nvml_process *ret)
{
	unsigned int room = *n, which = n_asked++ % 2;

	(void)dev;
	*n = answers[which].n;
	if (answers[which].result != GM_NVML_SUCCESS)
		return answers[which].result;
	if (*n > room)
		return GM_NVML_INSUFFICIENT_SIZE;
	memcpy(ret, answers[which].of, *n * sizeof(*ret));
	return GM_NVML_SUCCESS;
}

static const struct gm_nvml nvml = { .nvmlDeviceGetComputeRunningProcesses_v3 =
					     answer };

static void forget_answers(void)
{
	memset(answers, 0, sizeof(answers));
}

static void tell_once(unsigned int which, pid_t pid, uint64_t bytes)
{
	answers[which].of[answers[which].n++] =
		(struct gm_nvml_process){ .pid = (unsigned int)pid,
					  .bytes = bytes };
}

static void tell(pid_t pid, uint64_t before, uint64_t after)
{
	tell_once(0, pid, before);
	tell_once(1, pid, after);
}

static void look(void)
{
	n_asked = 0;
	gm_processes_begin(&p, &nvml, NULL, tree.root);
	gm_processes_end(&p, &nvml, NULL);
}

/* The record of a pid; without one, of no process. */
static const struct gm_probe_process *told_of(pid_t pid)
{
	memset(&note, 0, sizeof(note));
	for (uint32_t i = 0; i < p.n; i++) {
		if (p.items[i].pid != (uint32_t)pid)
			continue;
		gm_processes_note(&p, i, &note);
		EQ(note.type, GM_PROBE_PROCESS);
		EQ(note.process.index, i);
	}
	return &note.process;
}

/* ---- processes ----------------------------------------------------------- */

static pid_t start(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Once NVML could have listed it: start times count in ticks. */
static void grow_older(pid_t pid)
{
	struct gm_lineage_member member;

	if (!EQ(gm_lineage_stat(pid, &member), 0))
		return;
	while (gm_lineage_now() <= member.start)
		usleep(1000);
}

/* A process that has this pid. */
static pid_t start_as(pid_t pid)
{
	struct clone_args args = { .exit_signal = SIGCHLD,
				   .set_tid = (uint64_t)(uintptr_t)&pid,
				   .set_tid_size = 1 };
	pid_t child;

	fflush(stdout);
	child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (child == 0) {
		pause();
		_exit(0);
	}
	return child;
}

/* ---- the stories --------------------------------------------------------- */

static void the_lower_answer_counts(void)
{
	pid_t child = start();
	const struct gm_probe_process *told;

	grow_older(child);
	forget_answers();
	tell(child, 100, 70);
	look();
	EQ(p.figures, GM_FIGURES_KNOWN);
	EQ(p.n, 1);
	told = told_of(child);
	EQ(told->low_bytes, 70);
	EQ(told->high_bytes, 100);
	OK(told->n >= 2);
	EQ(told->line[0].pid, child);
	EQ(told->line[1].pid, getpid());

	/* The child may not have had memory that it had only before, or only
	 * after. */
	forget_answers();
	tell_once(0, child, 100);
	look();
	EQ(told_of(child)->low_bytes, 0);
	EQ(told_of(child)->high_bytes, 100);
	EQ(told_of(child)->n, 0);
	forget_answers();
	tell_once(1, child, 60);
	look();
	EQ(told_of(child)->low_bytes, 0);
	EQ(told_of(child)->high_bytes, 60);

	/* Two entries of one process are both its own. */
	forget_answers();
	tell(child, 10, 10);
	tell(child, 5, 4);
	look();
	EQ(p.n, 1);
	EQ(told_of(child)->low_bytes, 14);
	EQ(told_of(child)->high_bytes, 15);
	forget_answers();
	look();
	EQ(p.n, 0);
	end(child);
}

static void what_is_not_told_counts_as_nothing(void)
{
	pid_t child = start();

	grow_older(child);
	forget_answers();
	tell(child, 100, UNTOLD);
	tell(0, 40, 40);
	look();
	EQ(p.figures, GM_FIGURES_PARTLY);
	EQ(told_of(child)->low_bytes, 0);
	EQ(told_of(child)->n, 0);
	EQ(told_of(0)->low_bytes, 40);
	EQ(told_of(0)->n, 0);

	answers[0].result = GM_NVML_NOT_SUPPORTED;
	look();
	EQ(p.figures, GM_FIGURES_REFUSED);
	EQ(p.n, 0);
	answers[0].result = GM_NVML_SUCCESS;
	answers[1].result = GM_NVML_NO_PERMISSION;
	look();
	EQ(p.figures, GM_FIGURES_REFUSED);
	EQ(p.n, 0);

	/* More than there is room for. */
	forget_answers();
	for (int i = 0; i <= (int)GM_PROBE_PROCESSES; i++)
		tell(child + i, 1, 1);
	look();
	EQ(p.figures, GM_FIGURES_PARTLY);
	EQ(told_of(child)->low_bytes, 0);

	forget_answers();
	tell(child, 8, 8);
	look();
	EQ(p.figures, GM_FIGURES_KNOWN);
	EQ(told_of(child)->low_bytes, 8);
	OK(told_of(child)->n >= 2);
	end(child);
}

static void other_namespaces_tell_nothing(void)
{
	char root[sizeof(tree.root)];

	forget_answers();
	tell(getpid(), 8, 8);
	memcpy(root, tree.root, sizeof(root));
	strcpy(tree.root, "/nonexistent");
	look();
	EQ(p.figures, GM_FIGURES_NAMESPACE);
	EQ(p.n, 0);
	EQ(n_asked, 0);
	memcpy(tree.root, root, sizeof(root));
	tree_unlink(PIDS);
	tree_link(PIDS, "pid:[4026532001]");
	look();
	EQ(p.figures, GM_FIGURES_NAMESPACE);
	tree_unlink(PIDS);
	tree_link(PIDS, "pid:[4026531836]");
	look();
	EQ(p.figures, GM_FIGURES_KNOWN);
	OK(told_of(getpid())->n >= 1);
}

/* NVML goes on listing a process that has ended, as the owner of memory that a
 * child of it keeps, and the kernel gives its pid to another. */
static void a_reused_pid_is_a_stranger(void)
{
	pid_t child = start(), other;

	grow_older(child);
	forget_answers();
	tell(child, 50, 50);
	look();
	OK(told_of(child)->n >= 2);
	end(child);
	look();
	EQ(told_of(child)->low_bytes, 50);
	EQ(told_of(child)->n, 0);
	other = start_as(child);
	if (other != child) {
		SKIP(6, "this user may not choose a pid");
		return;
	}
	grow_older(other);
	for (int i = 0; i < 3; i++) {
		look();
		EQ(told_of(other)->low_bytes, 50);
		EQ(told_of(other)->n, 0);
	}
	/* Once it was off the list, it is listed for itself. */
	forget_answers();
	look();
	tell(other, 50, 50);
	look();
	EQ(told_of(other)->low_bytes, 50);
	OK(told_of(other)->n >= 2);
	end(other);
}

/* NVML meant the process that had the pid before. */
static void who_is_younger_than_the_look_is_a_stranger(void)
{
	pid_t child = start();

	grow_older(child);
	forget_answers();
	tell(child, 50, 50);
	memset(&p, 0, sizeof(p));
	n_asked = 0;
	gm_processes_begin(&p, &nvml, NULL, tree.root);
	p.began = 1; /* in the first second of the machine */
	gm_processes_end(&p, &nvml, NULL);
	EQ(told_of(child)->low_bytes, 50);
	EQ(told_of(child)->n, 0);
	end(child);
}

TAP_CASE()
{
	if (!tree_begin())
		return tap_done();
	tree_link(PIDS, "pid:[4026531836]");
	the_lower_answer_counts();
	what_is_not_told_counts_as_nothing();
	other_namespaces_tell_nothing();
	a_reused_pid_is_a_stranger();
	who_is_younger_than_the_look_is_a_stranger();
	tree_end();
	return tap_done();
}
