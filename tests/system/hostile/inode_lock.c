/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that gpumapd takes no lock of a file that a client can write: a client
 * holds the locks of its memory for as long as it likes, by a write() from a
 * page that never arrives, and nothing ends a process that waits for them.  A
 * lease of the file is waited for no more than a lock.  The same holds for the
 * lock of a client's folder in /proc.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/fuse.h"
#include "tests/support/raw.h"
#include "tests/support/story.h"

static struct agent agent;
static struct fuse fuse;
static char path[160];

/* ---- the attack ---------------------------------------------------------- */

struct hold {
	pthread_t thread;
	int fd;
	const void *page;
};

static void *write_it(void *arg)
{
	const struct hold *hold = arg;

	return (void *)(intptr_t)write(hold->fd, hold->page, 4096);
}

/* Hold the locks of the file behind @fd until the file system ends, by a write
 * from @page of it. */
static void begin_hold(struct hold *hold, int fd, const void *page)
{
	uint64_t before = fuse.orders->unanswered;

	hold->fd = fd;
	hold->page = page;
	if (pthread_create(&hold->thread, NULL, write_it, hold) != 0)
		exit(99);
	STORY_WAIT_WHILE(fuse.orders->unanswered == before);
	OK(fuse.orders->unanswered > before);
}

static const char *map_pages(void)
{
	int fd = fuse_open(&fuse);
	void *pages =
		mmap(NULL, FUSE_FILE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);

	if (fd < 0 || pages == MAP_FAILED)
		exit(99);
	close(fd);
	return pages;
}

/* ---- what goes on -------------------------------------------------------- */

static void others_are_served(void)
{
	struct raw good;

	EQ(raw_open_queue(&good, path, 0, 16, MIB), 0);
	EQ(raw_publish(&good, "other", 0, 4), 0);
	raw_close(&good);
}

/* Sessions that were closed just now may be leaving still. */
static void sessions_are_listed(void)
{
	struct gpumap *map = story_attach(&agent);
	struct gpumap_session_info info[4];

	STORY_WAIT_WHILE(gpumap_session_list(map, info, 4) > 1);
	EQ(gpumap_session_list(map, info, 4), 1);
	gpumap_detach(map);
}

static int own_memory(void)
{
	int fd = memfd_create("agent-lock", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, MIB) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		exit(99);
	return fd;
}

static void locks_are_not_waited_for(void)
{
	struct gm_register memory = {
		.handle = gm_handle_make(1, GM_BUFFER_REGISTERED, 0, 1),
		.bytes = MIB,
	};
	struct gm_register file = {
		.handle = gm_handle_make(1, GM_BUFFER_FILE, 0, 2),
	};
	struct hold holds[3];
	const char *pages = map_pages();
	int fd = own_memory();
	struct raw c;

	EQ(raw_open(&c, path), 0);
	EQ(raw_session(&c, 16, 0, MIB), 0);
	begin_hold(&holds[0], c.queues, pages);
	begin_hold(&holds[1], c.arena, pages + MIB);
	begin_hold(&holds[2], fd, pages + 2 * MIB);

	/* These go last where gpumapd waits. */
	EQ(raw_queue(&c, 0), 0);
	EQ(raw_queue(&c, 1), 0);
	EQ(raw_register(&c, &memory, fd), 0);
	EQ(raw_register(&c, &file, fd), 0);
	others_are_served();
	sessions_are_listed();
	EQ(raw_forget(&c, memory.handle), 0);
	raw_close(&c);
	others_are_served();
	fuse_end(&fuse);
	for (size_t i = 0; i < sizeof(holds) / sizeof(holds[0]); i++)
		pthread_join(holds[i].thread, NULL);
	munmap((void *)pages, FUSE_FILE_BYTES);
	close(fd);
}

/* ---- /proc --------------------------------------------------------------- */

/* A client that pins a map, and lets no process look up a name in the client's
 * folder in /proc: one thread reads the folder into a page that never arrives,
 * and another one waits to make a name there. */
struct client {
	pthread_barrier_t began;
	pid_t maker;
	char *page;
	int folder;
};

static void *read_folder(void *arg)
{
	const struct client *client = arg;

	syscall(SYS_getdents64, client->folder, client->page, 4096);
	return NULL;
}

static void *make_name(void *arg)
{
	struct client *client = arg;
	char name[32];

	client->maker = (pid_t)syscall(SYS_gettid);
	snprintf(name, sizeof(name), "/proc/%d/name", (int)getpid());
	pthread_barrier_wait(&client->began);
	pthread_barrier_wait(&client->began);
	mkdir(name, 0700);
	return NULL;
}

/* Wait until the thread of this file in /proc sleeps in the kernel. */
static bool is_stuck(int stat)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	char text[512] = "", *state = NULL;

	do {
		ssize_t n = pread(stat, text, sizeof(text) - 1, 0);

		text[n > 0 ? n : 0] = '\0';
		state = strrchr(text, ')');
		story_nap(1000);
	} while ((!state || strncmp(state, ") D", 3) != 0) &&
		 story_now() < until);
	return state && strncmp(state, ") D", 3) == 0;
}

/* In a child, which writes the answer to its PIN. */
static void hold_folder_and_pin(const struct fuse *own, int answer, void *page)
{
	struct gm_object_name pin = { .kind = GM_KIND_LAYERS, .name = "other" };
	struct client client = { .page = page };
	struct gm_pin_reply reply;
	pthread_t threads[2];
	char name[64];
	struct raw c;
	int stat, status = raw_open(&c, path);

	client.folder = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pthread_barrier_init(&client.began, NULL, 2);
	pthread_create(&threads[0], NULL, make_name, &client);
	pthread_barrier_wait(&client.began);
	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", client.maker);
	stat = open(name, O_RDONLY | O_CLOEXEC);
	pthread_create(&threads[1], NULL, read_folder, &client);
	STORY_WAIT_WHILE(own->orders->unanswered == 0);
	pthread_barrier_wait(&client.began);
	if (status == 0)
		status = is_stuck(stat) ? raw_ask(&c, GM_CONTROL_PIN, &pin,
						  sizeof(pin), &reply,
						  sizeof(reply), NULL)
					: -ENOMSG;
	(void)!write(answer, &status, sizeof(status));
	pause();
}

/* The file system ends at once: all that look at the client wait. */
static void folders_in_proc_are_not_waited_for(const char *folder)
{
	int fd, ends[2], status = -ENOMSG;
	struct fuse own;
	void *page;
	pid_t pid;

	if (!OK(fuse_begin(&own, folder)))
		return;
	own.orders->fails_from = 0;
	fd = fuse_open(&own);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (fd < 0 || page == MAP_FAILED || pipe2(ends, O_CLOEXEC) != 0)
		exit(99);
	others_are_served(); /* the map is there */
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		hold_folder_and_pin(&own, ends[1], page);
	close(ends[1]);
	EQ(read(ends[0], &status, sizeof(status)), sizeof(status));
	EQ(status, 0);
	others_are_served();
	kill(pid, SIGKILL);
	fuse_end(&own);
	waitpid(pid, NULL, 0);
	close(ends[0]);
	close(fd);
	munmap(page, 4096);
}

/* A lease is to be had of what open() has opened, and of that alone. */
static int with_a_lease(int fd)
{
	char name[32];
	int leased;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	leased = open(name, O_RDWR | O_CLOEXEC);
	close(fd);
	signal(SIGIO, SIG_IGN); /* tells the holder of a lease of an open() */
	EQ(fcntl(leased, F_SETLEASE, F_WRLCK), 0);
	return leased;
}

/* An open() would wait for it for lease-break-time, and succeed then. */
static void leases_are_not_waited_for(void)
{
	struct gm_register memory = {
		.handle = gm_handle_make(1, GM_BUFFER_REGISTERED, 0, 1),
		.bytes = MIB,
	};
	int fd = with_a_lease(own_memory());
	struct raw c;

	EQ(raw_open_queue(&c, path, 0, 16, MIB), 0);
	EQ(raw_register(&c, &memory, fd), -EINVAL);
	OK(strstr(c.refusal, "holds a lease") != NULL);
	others_are_served();
	EQ(fcntl(fd, F_SETLEASE, F_UNLCK), 0);
	EQ(raw_register(&c, &memory, fd), 0);
	raw_close(&c);
	close(fd);
}

TAP_CASE()
{
	char folder[128];

	agent_make(&agent, "[host]\nrows = 2\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	snprintf(folder, sizeof(folder), "%s/fuse", agent.dir);
	if (geteuid() != 0 || !fuse_begin(&fuse, folder)) {
		SKIP(1, "needs root, and /dev/fuse");
		agent_remove(&agent);
		return tap_done();
	}
	fuse.orders->fails_from = 0;
	if (OK(agent_start(&agent))) {
		leases_are_not_waited_for();
		locks_are_not_waited_for();
		snprintf(folder, sizeof(folder), "%s/proc", agent.dir);
		folders_in_proc_are_not_waited_for(folder);
	} else {
		fuse_end(&fuse);
	}
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
