/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The agent ends, killed or not, while sessions share, and the next one has
 * what its clients were told of: each share whole, with the same charges, until
 * the last process that holds it has ended or let go.  A supervisor keeps the
 * descriptors meanwhile.
 */

#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/support/share_sessions.h"

#define NAME   "weights"
#define ABOUT  "{\"layers\": 2}"
#define OTHER  61358u
#define FIELDS "model=tiny\ndtype=u32\n"

static const char config[] = "[socket]\nmode = 0666\n"
			     "[host]\nrows = 2\n"
			     "[limits]\nsessions-per-second = 1000\n";
static int kept; /* the supervisor's descriptors, of no share */

/* ---- the agent ----------------------------------------------------------- */

/* Wait until it has been ready @n times since the supervisor was started. */
static bool is_ready_again(unsigned n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (agent_count_log(&agent, "event=ready") < n &&
	       story_now() < until)
		story_nap(1000);
	return EQ(agent_count_log(&agent, "event=ready"), n);
}

static bool restart(int signal)
{
	unsigned n = agent_count_log(&agent, "event=ready");

	kill(agent_main_pid(&agent), signal);
	return is_ready_again(n + 1);
}

/* No share is there, and the supervisor keeps nothing of one. */
static void nothing_is_left(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	settles(0, 0);
	while (story_holds(agent.pid, NULL) != kept && story_now() < until)
		story_nap(1000);
	EQ(story_holds(agent.pid, NULL), kept);
}

/* ---- parts --------------------------------------------------------------- */

static struct gpumap_fingerprint fingerprint(void)
{
	return (struct gpumap_fingerprint){ .size = sizeof(fingerprint()),
					    .hash = { 1, 2, 3 },
					    .fields = FIELDS };
}

/* Rows 0 and 1, filled with @value and one more. */
static int64_t shares(struct gpumap_session *session, uint32_t value,
		      uint64_t *ret_id)
{
	const struct gpumap_fingerprint is = fingerprint();
	const uint32_t uids[] = { OTHER };
	uint64_t b[2];
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = NAME,
						.buffers = b,
						.n_buffers = 2,
						.flags = GPUMAP_SHARE_READ_ONLY,
						.about = ABOUT,
						.about_bytes = sizeof(ABOUT),
						.uids = uids,
						.n_uids = 1,
						.fingerprint = &is };
	int ret = 0;

	for (uint32_t i = 0; i < 2 && ret == 0; i++)
		ret = make(session, i, value + i, &b[i]);
	return ret ? ret : gpumap_share_publish(session, &request, ret_id);
}

static struct gpumap_session *again(void)
{
	struct gpumap *own = story_attach(&agent);

	return own ? session_open(own) : NULL;
}

/* As many buffers as the order says, of one page each. */
static int64_t shares_many(struct gpumap_session *session, int64_t n)
{
	static uint64_t b[GPUMAP_SHARE_BUFFERS_MAX];
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = NAME,
						.buffers = b,
						.n_buffers = (uint32_t)n,
						.flags = GPUMAP_SHARE_READ_ONLY,
						.about = ABOUT,
						.about_bytes = sizeof(ABOUT) };
	uint64_t id;
	int ret = 0;

	for (int64_t i = 0; i < n && ret == 0; i++)
		ret = gpumap_buffer_alloc(session, 0, 4096,
					  GPUMAP_BUFFER_EXPORTABLE,
					  GPUMAP_NO_DEADLINE, &b[i]);
	return ret ? ret : gpumap_share_publish(session, &request, &id);
}

/* Is what is said about it whole? */
static int64_t has_about(struct gpumap_session *session, uint64_t id)
{
	struct gpumap_share_info info = { .size = sizeof(info) };
	int ret = gpumap_share_info(session, id, &info);

	return ret == 0 && (info.about_bytes != sizeof(ABOUT) ||
			    memcmp(info.about, ABOUT, sizeof(ABOUT)) != 0)
		       ? -EBADMSG
		       : ret;
}

/* The value in its first buffer, where the second has one more and what is said
 * about it is whole. */
static int64_t holds(struct gpumap_session *session, uint64_t id)
{
	int64_t got = value_at(session, id, 0);
	int64_t ret = has_about(session, id);

	if (got < 0 || ret != 0)
		return got < 0 ? got : ret;
	return value_at(session, id, 1) == got + 1 ? got : -EIO;
}

/* Into its first buffer.  Returns the status of the job. */
static int64_t writes(struct gpumap_session *session, uint64_t id)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	uint64_t buffer;
	int ret = gpumap_share_buffer(session, id, 0, &info, &buffer);

	return ret ? ret : fill(session, info.row, buffer, 1);
}

/* By one name, and when that is free by another. */
static int shares_twice(struct gpumap_session *session, uint32_t value,
			uint64_t *ret_id)
{
	uint64_t buffer;
	int ret = make(session, 0, value, &buffer);

	if (ret == 0)
		ret = share(session, "first", &buffer, 1, 0, ret_id);
	if (ret == 0)
		ret = gpumap_share_close(session, *ret_id);
	return ret ? ret : share(session, NAME, &buffer, 1, 0, ret_id);
}

static int64_t takes_part(struct gpumap_session *first, struct line *line)
{
	static struct gpumap_session *session;
	static uint64_t id;
	struct gpumap_fingerprint is = fingerprint();
	uint64_t buffer;
	int ret;

	if (!session)
		session = first;
	switch (line->what) {
	case 's':
		return shares(session, (uint32_t)line->value, &id);
	case 'w':
		return shares_twice(session, (uint32_t)line->value, &id);
	case 'x':
		return value_at(session, id, 0);
	case 't': /* by another name */
		ret = make(session, 0, (uint32_t)line->value, &buffer);
		return ret ? ret : share(session, "other", &buffer, 1, 0, &id);
	case 'm':
		return shares_many(session, line->value);
	case 'o':
		return gpumap_share_open(session, NAME, GPUMAP_SHARE_READ_ONLY,
					 &is, &id);
	case 'p': /* whatever is in there */
		return gpumap_share_open(session, NAME, GPUMAP_SHARE_READ_ONLY,
					 NULL, &id);
	case 'v':
		return holds(session, id);
	case 'b':
		return has_about(session, id);
	case 'f':
		return writes(session, id);
	case 'c':
		return gpumap_share_close(session, id);
	case 'e':
		return gpumap_share_release(story_attach(&agent), NAME);
	default: /* the agent is another */
		session = again();
		return session ? 0 : -ECONNREFUSED;
	}
}

static struct player new_part(void)
{
	return player_start(0, takes_part);
}

/* ---- what is there afterwards -------------------------------------------- */

static void is_as_before(const struct gpumap_share_info *before, uint64_t bytes)
{
	struct gpumap_share_info now = shared(NAME);

	EQ(now.share, before->share);
	EQ(now.uid, before->uid);
	EQ(now.pid, before->pid);
	EQ(now.flags, before->flags);
	EQ(now.n_buffers, before->n_buffers);
	EQ(now.n_holders, before->n_holders);
	EQ(now.bytes, before->bytes);
	EQ(now.about_bytes, before->about_bytes);
	EQ(memcmp(now.rows, before->rows, sizeof(now.rows)), 0);
	EQ(memcmp(now.fingerprint, before->fingerprint, 32), 0);
	OK(now.age_ns >= before->age_ns);
	EQ(charged(), bytes);
}

static void a_share_is_found_again(int signal)
{
	struct player one = new_part(), two = new_part(), three;
	struct gpumap_share_info before;
	uint64_t bytes;

	EQ(tell(&one, 's', "", 10), 0);
	EQ(tell(&two, 'o', "", 0), 0);
	before = shared(NAME);
	EQ(before.n_holders, 2);
	bytes = charged();
	if (!restart(signal))
		return;
	is_as_before(&before, bytes);
	three = new_part();
	EQ(tell(&three, 'o', "", 0), 0);
	EQ(tell(&three, 'v', "", 0), 10);
	EQ(shared(NAME).n_holders, 3);
	/* Both have ended with the earlier agent's sessions. */
	EQ(tell(&two, 'c', "", 0), -ECONNRESET);
	player_end(&three, SIGKILL);
	player_end(&one, SIGKILL);
	for (int i = 0; i < STORY_LOOKS && shared(NAME).n_holders != 1; i++)
		story_nap(1000);
	EQ(shared(NAME).pid, 0);
	/* And over one more. */
	if (!restart(signal))
		return;
	EQ(shared(NAME).n_holders, 1);
	EQ(charged(), bytes);
	player_end(&two, SIGKILL);
	nothing_is_left();
}

/* A process opens it in a session of the next agent, and lets go there. */
static void a_process_comes_back(void)
{
	struct player one = new_part(), two = new_part();
	struct gpumap_share_info before;
	uint64_t bytes;

	EQ(tell(&one, 's', "", 20), 0);
	EQ(tell(&two, 'o', "", 0), 0);
	before = shared(NAME);
	bytes = charged();
	if (!restart(SIGKILL))
		return;
	EQ(tell(&one, 'a', "", 0), 0);
	EQ(tell(&one, 'o', "", 0), 0);
	EQ(tell(&one, 'v', "", 0), 20);
	is_as_before(&before, bytes);
	/* Once more: it has made the share still. */
	if (!restart(SIGKILL))
		return;
	is_as_before(&before, bytes);
	EQ(tell(&one, 'a', "", 0), 0);
	EQ(tell(&one, 'o', "", 0), 0);
	EQ(tell(&one, 'f', "", 0), -EACCES);
	EQ(tell(&one, 'c', "", 0), 0);
	EQ(shared(NAME).n_holders, 1);
	EQ(tell(&two, 'a', "", 0), 0);
	EQ(tell(&two, 'o', "", 0), 0);
	EQ(shared(NAME).n_holders, 1);
	if (!restart(SIGTERM))
		return;
	EQ(shared(NAME).n_holders, 1);
	EQ(tell(&two, 'a', "", 0), 0);
	EQ(tell(&two, 'o', "", 0), 0);
	EQ(tell(&two, 'v', "", 0), 20);
	EQ(tell(&two, 'c', "", 0), 0);
	EQ(shares_n(), 0);
	player_end(&one, 0);
	player_end(&two, 0);
	nothing_is_left();
}

/* Writable, so that both exports are of one file. */
static void one_buffer_is_shared_twice(void)
{
	struct player one = new_part();

	EQ(tell(&one, 'w', "", 33), 0);
	if (!restart(SIGKILL))
		return;
	EQ(shares_n(), 1);
	EQ(tell(&one, 'a', "", 0), 0);
	EQ(tell(&one, 'p', "", 0), 0);
	EQ(tell(&one, 'x', "", 0), 33);
	player_end(&one, 0);
	nothing_is_left();
}

/* ---- holders that end while no agent looks ------------------------------- */

/* The agent stands still at the death of these, and never hears of it. */
static bool restart_without(struct player *gone, int n)
{
	pid_t pid = agent_main_pid(&agent);

	OK(process_stop(pid));
	for (int i = 0; i < n; i++)
		player_end(&gone[i], SIGKILL);
	return restart(SIGKILL);
}

static void a_holder_ends_meanwhile(void)
{
	struct player part[2] = { new_part(), new_part() };

	EQ(tell(&part[0], 's', "", 30), 0);
	EQ(tell(&part[1], 'o', "", 0), 0);
	if (!restart_without(part, 1))
		return;
	EQ(shared(NAME).n_holders, 1);
	EQ(shared(NAME).pid, 0);
	player_end(&part[1], SIGKILL);
	nothing_is_left();
}

static void all_holders_end_meanwhile(void)
{
	struct player part[2] = { new_part(), new_part() };

	EQ(tell(&part[0], 's', "", 40), 0);
	EQ(tell(&part[1], 'o', "", 0), 0);
	if (!restart_without(part, 2))
		return;
	EQ(shares_n(), 0);
	nothing_is_left();
}

static void it_is_released_afterwards(void)
{
	struct player one = new_part(), two;

	EQ(tell(&one, 's', "", 50), 0);
	if (!restart(SIGKILL))
		return;
	two = new_part();
	EQ(tell(&two, 's', "", 60), -EEXIST);
	player_end(&two, SIGKILL);
	EQ(gpumap_share_release(map, NAME), 0);
	nothing_is_left();
	two = new_part();
	EQ(tell(&two, 's', "", 60), 0);
	EQ(shared(NAME).n_holders, 1);
	player_end(&one, 0);
	EQ(shared(NAME).n_holders, 1);
	player_end(&two, 0);
	nothing_is_left();
}

/* ---- users --------------------------------------------------------------- */

static void users_are_as_before(void)
{
	struct player one = player_start(STRANGER, takes_part);
	struct player other = player_start(OTHER, takes_part);
	struct player third = player_start(STRANGER + 5, takes_part);
	struct gpumap_share_info before;
	uint64_t bytes;

	EQ(tell(&one, 's', "", 70), 0);
	EQ(tell(&other, 'o', "", 0), 0);
	before = shared(NAME);
	EQ(before.uid, STRANGER);
	bytes = charged();
	if (!restart(SIGKILL))
		return;
	is_as_before(&before, bytes);
	EQ(tell(&third, 'a', "", 0), 0);
	EQ(tell(&third, 'o', "", 0), -EACCES);
	player_end(&one, SIGKILL);
	EQ(tell(&other, 'a', "", 0), 0);
	EQ(tell(&other, 'o', "", 0), 0);
	EQ(tell(&other, 'v', "", 0), 70);
	player_end(&third, 0);
	player_end(&other, 0);
	nothing_is_left();
}

/* The next agent is to keep no memory of cards over their workers: then a share
 * with a part there ends, and one on hosts stays. */
static void cards_keep_none_any_more(void)
{
	struct player one = new_part();

	EQ(tell(&one, 's', "", 75), 0);
	shares_stage("keep-shares = no\nshare = any\n", config);
	if (!restart(SIGKILL))
		return;
#ifdef STAGE_CUDA
	EQ(shares_n(), 0);
	OK(agent_logged(&agent, "memory of a card ends with its worker"));
#else
	EQ(shares_n(), 1);
#endif
	shares_stage("keep-shares = yes\nshare = any\n", config);
	player_end(&one, SIGKILL);
	nothing_is_left();
	restart(SIGTERM);
}

/* ---- the supervisor stands still ----------------------------------------- */

static int queue_length(void)
{
	FILE *file = fopen("/proc/sys/net/unix/max_dgram_qlen", "re");
	int n = -1;

	if (!file || fscanf(file, "%d", &n) != 1)
		n = -1;
	if (file)
		fclose(file);
	return n;
}

static bool has_answer(const struct player *p, int ms)
{
	struct pollfd end = { .fd = p->fd, .events = POLLIN };

	return poll(&end, 1, ms) == 1;
}

static int64_t answer_of(const struct player *p)
{
	struct line line;

	return read(p->fd, &line, sizeof(line)) == sizeof(line) ? line.value
								: -EPIPE;
}

/* Not all descriptors fit into the supervisor's queue: whichever client asks is
 * told of the share when they do, and not before. */
static void answers_wait_for_the_supervisor(bool is_killed)
{
	struct player one = new_part(), two = new_part(), three = new_part();
	int n = queue_length() + 6;

	if (n <= 6 || n > 200) {
		SKIP(1, "the kernel's queue of datagrams is too long");
		return;
	}
	OK(process_stop(agent.pid));
	tell_only(&one, 'm', "", n);
	while (shares_n() != 1)
		story_nap(1000);
	tell_only(&two, 'p', "", 0);
	tell_only(&three, 'p', "", 0);
	while (shared(NAME).n_holders != 3)
		story_nap(1000);
	OK(!has_answer(&one, 20));
	OK(!has_answer(&two, 0));
	/* The third one waits no more. */
	player_end(&three, SIGKILL);
	while (shared(NAME).n_holders != 2)
		story_nap(1000);
	if (is_killed) {
		unsigned ready = agent_count_log(&agent, "event=ready");

		kill(agent_main_pid(&agent), SIGKILL);
		EQ(answer_of(&one), -ECONNRESET);
		EQ(answer_of(&two), -ECONNRESET);
		kill(agent.pid, SIGCONT);
		is_ready_again(ready + 1);
		EQ(shares_n(), 0);
		OK(agent_logged(&agent, "event=share_not_restored"));
	} else {
		kill(agent.pid, SIGCONT);
		EQ(answer_of(&one), 0);
		EQ(answer_of(&two), 0);
		EQ(tell(&two, 'b', "", 0), 0);
		EQ(shares_n(), 1);
	}
	player_end(&one, 0);
	player_end(&two, 0);
	nothing_is_left();
}

/* The messages about the second end wait in the agent, which is killed: what
 * the clients were told counts. */
static void an_end_counts_at_once(void)
{
	unsigned ready = agent_count_log(&agent, "event=ready");
	struct player one = new_part(), two = new_part();
	int n = queue_length() + 6;

	if (n <= 6 || n > 200) {
		SKIP(1, "the kernel's queue of datagrams is too long");
		return;
	}
	EQ(tell(&one, 'm', "", n), 0);
	EQ(tell(&two, 't', "", 5), 0);
	OK(process_stop(agent.pid));
	EQ(gpumap_share_release(map, NAME), 0);
	EQ(gpumap_share_release(map, "other"), 0);
	kill(agent_main_pid(&agent), SIGKILL);
	kill(agent.pid, SIGCONT);
	is_ready_again(ready + 1);
	EQ(shares_n(), 0);
	player_end(&one, SIGKILL);
	player_end(&two, SIGKILL);
	nothing_is_left();
}

/* ---- the supervisor's rules ---------------------------------------------- */

/* The socket that gpumapd was started with. */
static void find_socket(char ret_path[108])
{
	static char all[1 << 20];
	char path[64], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ",
		 (int)agent_main_pid(&agent));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, all, sizeof(all) - 1) : 0;
	all[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	for (at = all; at < all + n; at += strlen(at) + 1) {
		if (strncmp(at, "NOTIFY_SOCKET=", 14) == 0)
			snprintf(ret_path, 108, "%s", at + 14);
	}
}

/* Root's, even; but not gpumapd's. */
static void strangers_messages_do_not_count(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct player one = new_part();
	char text[64];
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	EQ(tell(&one, 's', "", 85), 0);
	find_socket(to.sun_path);
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof(text),
			 "FDSTOREREMOVE=1\nFDNAME=share-%u%s",
			 (unsigned)shared(NAME).share, i ? "-0" : "");
		EQ(sendto(fd, text, strlen(text), 0, (struct sockaddr *)&to,
			  sizeof(to)),
		   (ssize_t)strlen(text));
	}
	close(fd);
	if (!restart(SIGKILL))
		return;
	EQ(shared(NAME).n_holders, 1);
	player_end(&one, 0);
	nothing_is_left();
}

/* Room for one share, which is kept; the other one ends with the agent. */
static void a_share_without_room_is_not_kept(void)
{
	struct player one = new_part(), two = new_part();

	EQ(tell(&one, 's', "", 86), 0);
	OK(!agent_logged(&agent, "event=share_not_kept"));
	EQ(tell(&two, 't', "", 87), 0);
	OK(agent_logged(&agent, "FileDescriptorStoreMax"));
	EQ(shares_n(), 2);
	if (!restart(SIGKILL))
		return;
	EQ(shares_n(), 1);
	EQ(shared(NAME).n_holders, 1);
	player_end(&one, SIGKILL);
	nothing_is_left();
	/* The room is free again. */
	EQ(tell(&two, 'a', "", 0), 0);
	EQ(tell(&two, 't', "", 88), 0);
	EQ(agent_count_log(&agent, "event=share_not_kept"), 1);
	player_end(&two, 0);
	nothing_is_left();
}

/* A user has a quarter of four: no share has so few descriptors. */
static void a_user_has_a_part_of_the_store(void)
{
	struct player one = player_start(STRANGER, takes_part);

	EQ(tell(&one, 's', "", 89), 0);
	OK(agent_logged(&agent, "its user has a quarter"));
	player_end(&one, SIGKILL);
	nothing_is_left();
}

/* The next agent refuses its configuration; the shares wait for the one after
 * the administrator has seen to that. */
static void a_wrong_configuration_loses_nothing(void)
{
	struct player one = new_part();
	pid_t pid = agent_main_pid(&agent);
	unsigned n = agent_count_log(&agent, "event=ready");
	char path[160];

	EQ(tell(&one, 's', "", 84), 0);
	snprintf(path, sizeof(path), "%s.d", agent.config);
	EQ(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s.d/wrong.conf", agent.config);
	/* A file that is no configuration. */
	EQ(symlink("/proc/self/status", path), 0);
	kill(pid, SIGKILL);
	OK(agent_wait_log(&agent, "event=waiting retry_s=10"));
	unlink(path);
	path[strlen(path) - strlen("/wrong.conf")] = '\0';
	EQ(rmdir(path), 0);
	kill(agent.pid, SIGHUP);
	if (!is_ready_again(n + 1))
		return;
	/* With status 2 systemd would not start it again. */
	OK(agent_logged(&agent, "status=1 kept="));
	OK(!agent_logged(&agent, "status=2"));
	EQ(shared(NAME).n_holders, 1);
	player_end(&one, SIGKILL);
	nothing_is_left();
}

static void with_a_small_store(void)
{
	struct player first;

	agent.kept_most = 4;
	if (!OK(agent_start(&agent)))
		return;
	first = new_part();
	EQ(tell(&first, 's', "", 1), 0);
	player_end(&first, 0);
	settles(0, 0);
	kept = story_holds_at_rest(agent.pid);
	a_share_without_room_is_not_kept();
	strangers_messages_do_not_count();
	a_user_has_a_part_of_the_store();
	a_wrong_configuration_loses_nothing();
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent.kept_most = 4096;
}

/* ---- the agent is killed at marked points -------------------------------- */

#ifdef STAGE_CUDA
#define CARDS "[cuda]\nkeep-shares = yes\nshare = any\n"
#else
#define CARDS "[cuda]\nenabled = off\nshare = any\n"
#endif
static const char config_of_points[] =
	"[socket]\nmode = 0666\n[host]\nrows = 2\n"
	"[limits]\nsessions-per-second = 1000\n[worker]\nuser = root\n" CARDS;

/* Clients share, open and end; which of these were answered with success. */
static void does(struct player *one, struct player *two, char what,
		 bool ret_was_told[3])
{
	ret_was_told[0] = tell(one, 's', "", 90) == 0;
	ret_was_told[1] = what != 's' && tell(two, 'o', "", 0) == 0;
	ret_was_told[2] = what == 'c' ? tell(one, 'c', "", 0) == 0 &&
						tell(two, 'c', "", 0) == 0
			  : what == 'e' ? tell(one, 'e', "", 0) == 0
					: false;
}

/*
 * The agent dies at @point while clients do that.  A share of which a client
 * was told is there, whole; one that was ended is not; any other is whole, or
 * not there.
 */
static void is_killed_at(const char *point, char what)
{
	char ticket[128];
	struct player one, two;
	bool told[3];
	int n;

	stage_death(&agent, config_of_points, point, ticket);
	if (!OK(agent_start(&agent)))
		return;
	one = new_part();
	two = new_part();
	does(&one, &two, what, told);
	if (strcmp(point, "share_restored") == 0)
		kill(agent_main_pid(&agent), SIGKILL);
	if (!is_ready_again(2) || !EQ(access(ticket, F_OK), -1))
		return;
	n = shares_n();
	NOTE("told %d %d %d, then %d", told[0], told[1], told[2], n);
	if (told[0] && what != 'c' && what != 'e')
		EQ(n, 1);
	if (told[2])
		EQ(n, 0);
	if (n == 1) {
		struct player three = new_part();

		EQ(tell(&three, 'o', "", 0), 0);
		EQ(tell(&three, 'v', "", 0), 90);
		player_end(&three, 0);
	}
	player_end(&one, SIGKILL);
	player_end(&two, SIGKILL);
	nothing_is_left();
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent.env[STAGE_ENV] = NULL;
	unlink(ticket);
}

static void is_killed_at_points(void)
{
	static const struct {
		const char *point;
		char what;
	} all[] = { { "share_put_half", 's' }, { "share_made", 's' },
		    { "share_opened", 'o' },   { "share_end_kept", 'c' },
		    { "share_ended", 'c' },    { "share_end_kept", 'e' },
		    { "share_ended", 'e' },    { "share_restored", 'o' } };

	if (!stage_has_points())
		return;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		is_killed_at(all[i].point, all[i].what);
}

/* ---- no room ------------------------------------------------------------- */

static void without_a_supervisor(void)
{
	struct player one;

	agent.kept_most = 0;
	shares_stage("share = any\n", config);
	if (!OK(agent_start(&agent)))
		return;
	OK(agent_logged(&agent, "event=no_fd_store"));
	one = new_part();
	EQ(tell(&one, 's', "", 80), 0);
	OK(!agent_logged(&agent, "event=share_not_kept"));
	player_end(&one, 0);
	settles(0, 0);
}

TAP_CASE()
{
	struct player first;

	if (geteuid() != 0) {
		SKIP(1, "needs root, for other users");
		return tap_done();
	}
	shares_stage("keep-shares = yes\nshare = any\n", config);
	agent.kept_most = 4096;
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	first = new_part();
	EQ(tell(&first, 's', "", 1), 0);
	player_end(&first, 0);
	settles(0, 0);
	kept = story_holds_at_rest(agent.pid);
	a_share_is_found_again(SIGKILL);
	a_share_is_found_again(SIGTERM);
	a_process_comes_back();
	one_buffer_is_shared_twice();
	a_holder_ends_meanwhile();
	all_holders_end_meanwhile();
	it_is_released_afterwards();
	users_are_as_before();
	cards_keep_none_any_more();
	answers_wait_for_the_supervisor(false);
	answers_wait_for_the_supervisor(true);
	an_end_counts_at_once();
	if (tap_failures)
		agent_show_log(&agent);
	EQ(agent_kill(&agent, SIGTERM), 0);
	with_a_small_store();
	is_killed_at_points();
	without_a_supervisor();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	stage_end(&agent);
	return tap_done();
}
