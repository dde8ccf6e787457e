/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/worker/worker_row.h"

void row_make(struct row *row)
{
	static unsigned serial;

	snprintf(row->lock, sizeof(row->lock),
		 "/dev/shm/gpumap-test.%d.%u.lock", (int)getpid(), serial++);
	row->journal =
		hand_share("test-journal", GM_JOURNAL_BYTES, &row->journal_fd);
	row->group_page =
		hand_share("test-group_page", sizeof(*row->group_page),
			   &row->group_page_fd);
	gm_put(&row->group_page->spin_limit, 1);
	row->pair = -1;
	row->failed[0] = row->ready[0] = '\0';
	row->code = 0;
	memset(row->more, 0, sizeof(row->more));
}

void row_drop(struct row *row)
{
	munmap(row->journal, GM_JOURNAL_BYTES);
	munmap(row->group_page, sizeof(*row->group_page));
	close(row->journal_fd);
	close(row->group_page_fd);
	if (row->pair >= 0)
		close(row->pair);
	unlink(row->lock);
}

static void __attribute__((noreturn))
row_be_worker(const struct row *row, int pair, bool recover)
{
	const char *path = getenv("GPUMAP_WORKER");
	int journal = fcntl(row->journal_fd, F_DUPFD, 16);
	int group_page = fcntl(row->group_page_fd, F_DUPFD, 16);
	int socket = fcntl(pair, F_DUPFD, 16);
	const char *args[32] = { path,      "--row",  "3",     "--name",
				 "test",    "--node", "0",     "--lock",
				 row->lock, "--uid",  "65534", "--gid",
				 "65534" };
	int n = 13;

	dup2(socket, GM_FD_SUPERVISOR);
	dup2(journal, GM_FD_JOURNAL);
	dup2(group_page, GM_FD_GROUP_PAGE);
	close_range(GM_FD_GROUP_PAGE + 1, ~0u, 0);
	for (int i = 0; row->more[i]; i++)
		args[n++] = row->more[i];
	if (recover)
		args[n++] = "--recover";
	execv(path, (char **)(uintptr_t)args);
	_exit(127);
}

uint32_t row_hear(struct row *row, struct gm_wire *ret_wire)
{
	struct pollfd p = { .fd = row->pair, .events = POLLIN };

	if (poll(&p, 1, (int)(HAND_PATIENCE_NS / 1000000)) != 1 ||
	    recv(row->pair, ret_wire, sizeof(*ret_wire), 0) !=
		    sizeof(*ret_wire))
		return 0;
	if (ret_wire->type == GM_WIRE_FAILED) {
		snprintf(row->failed, sizeof(row->failed), "%s",
			 ret_wire->text);
		row->code = ret_wire->code;
	}
	if (ret_wire->type == GM_WIRE_READY)
		snprintf(row->ready, sizeof(row->ready), "%s", ret_wire->text);
	return ret_wire->type;
}

void row_launch(struct row *row, bool recover)
{
	int pair[2];

	if (row->pair >= 0)
		close(row->pair);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		exit(99);
	row->pid = fork();
	if (row->pid == 0)
		row_be_worker(row, pair[1], recover);
	close(pair[1]);
	row->pair = pair[0];
}

bool row_start(struct row *row, bool recover)
{
	struct gm_wire wire;

	row_launch(row, recover);
	return row_hear(row, &wire) == GM_WIRE_READY;
}

int row_ended(struct row *row)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;
	int status;

	while (waitpid(row->pid, &status, WNOHANG) == 0) {
		if (hand_now() > end) {
			kill(row->pid, SIGKILL);
			waitpid(row->pid, &status, 0);
			return -1;
		}
		hand_nap();
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void row_tell(struct row *row, const struct gm_wire *wire, const int *fds,
	      size_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec data = { (void *)wire, sizeof(*wire) };
	struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (n_fds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	if (sendmsg(row->pair, &msg, MSG_NOSIGNAL) < 0)
		NOTE("sendmsg: %s", strerror(errno));
}

void row_tell_about(struct row *row, uint32_t type, const struct hand_client *c)
{
	struct gm_wire wire;

	memset(&wire, 0, sizeof(wire));
	wire.type = type;
	if (c) {
		wire.session = c->id;
		wire.place = c->place;
	}
	row_tell(row, &wire, NULL, 0);
}

int row_attach(struct row *row, const struct hand_client *c)
{
	struct gm_wire wire = hand_attach(c, ROW);
	int fds[] = { c->queues, c->arena, c->doorbell, c->socket[1] };

	row_tell(row, &wire, fds, 4);
	if (row_hear(row, &wire) != GM_WIRE_ATTACHED || wire.session != c->id)
		return 1;
	return wire.status;
}

int row_drain(struct row *row)
{
	struct gm_wire wire;
	uint32_t type;

	row_tell_about(row, GM_WIRE_DRAIN, NULL);
	do {
		type = row_hear(row, &wire);
	} while (type != 0 && type != GM_WIRE_DRAINED);
	if (type == GM_WIRE_DRAINED) {
		EQ(waitpid(row->pid, NULL, WNOHANG), 0);
		row_tell_about(row, GM_WIRE_LEAVE, NULL);
	}
	return row_ended(row);
}

bool row_becomes_odd(gm_a32 *word)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;

	while ((gm_get(word) & 1) == 0) {
		if (hand_now() > end)
			return false;
		hand_nap();
	}
	return true;
}

bool row_grows_past(gm_a64 *count, uint64_t seen)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;

	while (gm_get(count) <= seen) {
		if (hand_now() > end)
			return false;
		hand_nap();
	}
	return true;
}

bool row_can_run(void)
{
	bool refused = false;
	struct row row;

	if (!getenv("GPUMAP_WORKER")) {
		SKIP(1, "GPUMAP_WORKER says where gpumap-worker is");
		return false;
	}
	row_make(&row);
	if (row_start(&row, false))
		EQ(row_drain(&row), 0);
	else if (strstr(row.failed, "io_uring"))
		refused = true;
	else
		OK(!"the worker does not start");
	if (refused)
		SKIP(1, row.failed);
	if (row.failed[0])
		NOTE("%s", row.failed);
	refused = refused || row.failed[0];
	row_drop(&row);
	return !refused;
}
