/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The agent restarts under another configuration while shares are kept: other
 * rows, lower limits, users that may no longer share, other models, a smaller
 * store.  Memory that is there stays, whatever the limits are now; limits hold
 * for what is asked for from then on; a share of a row that is gone ends, and
 * the log says so.
 */

#include "tests/support/share_manager.h"

#define MOST 4096u

#define TWO_ROWS                                    \
	"[socket]\nmode = 0666\n[host]\nrows = 2\n" \
	"[limits]\nsessions-per-second = 1000\n"
#define ANY "share = any\n"

static const char node[] =
	"rows:\n"
	"- { name: A, kind: cuda, memory: 24G, compute-capability: 9.0,\n"
	"    sm-count: 100, threads-per-sm: 2048 }\n";

static bool begin(const char *cuda, const char *more)
{
	shares_stage(cuda, more);
	return start();
}

static bool restart(const char *cuda, const char *more)
{
	stop(SIGTERM);
	return begin(cuda, more);
}

static void all_is_released(void)
{
	settles(0, 0);
	comes_to(0);
	stop(SIGTERM);
	store.most = MOST;
}

static int share_unclaimed(struct gpumap_session *session, const char *name)
{
	uint64_t buffer, id;
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = name,
						.buffers = &buffer,
						.n_buffers = 1 };
	int ret = make(session, 0, 7, &buffer);

	return ret ? ret : gpumap_share_publish(session, &request, &id);
}

static int64_t takes_part(struct gpumap_session *first, struct line *line)
{
	static struct gpumap_session *session;
	static uint64_t id;

	if (!session)
		session = first;
	switch (line->what) {
	case 'k':
		return keep_on(session, line->name, (uint32_t)line->value, 0,
			       true) > 0
			       ? 0
			       : -EDQUOT;
	case 'c':
		return gpumap_share_claim(session, line->name, 0, NULL, 0);
	case 's':
		return share_unclaimed(session, line->name);
	case 'o':
		return gpumap_share_open(session, line->name,
					 GPUMAP_SHARE_READ_ONLY, NULL, &id);
	case 'v':
		return value_at(session, id, 0);
	case 'r':
		return gpumap_share_release(story_attach(&agent), line->name);
	default: /* the agent is another */
		session = session_open(story_attach(&agent));
		return session ? 0 : -ECONNREFUSED;
	}
}

/* ---- rows ---------------------------------------------------------------- */

/* A row that is another part of its node is another row. */
static void rows_are_others(void)
{
	uint64_t id;

	if (!begin(ANY, TWO_ROWS))
		return;
	id = make_one("both", 10);
	if (!restart(ANY, "[host]\nrows = 1\n"))
		return;
	EQ(shares_n(), 0);
	OK(says(id, "a row of it is not there"));
	comes_to(0);
	EQ(charged(), 0);
	/* With the rows no share comes back. */
	if (!restart(ANY, TWO_ROWS))
		return;
	EQ(shares_n(), 0);
	all_is_released();
}

static void host_rows_become_dummies(void)
{
	uint64_t id;

	if (!begin(ANY, TWO_ROWS))
		return;
	id = make_one("both", 11);
	stop(SIGKILL);
	agent_configure_dummies(&agent, node, "[host]\nenabled = no\n");
	if (!start())
		return;
	EQ(shares_n(), 0);
	OK(says(id, "a row of it is not there"));
	all_is_released();
}

static void dummies_come_beside_them(void)
{
	if (!begin(ANY, TWO_ROWS))
		return;
	make_one("both", 12);
	stop(SIGKILL);
	agent_configure_dummies(&agent, node, TWO_ROWS);
	if (!start())
		return;
	EQ(value_in("both"), 13);
	EQ(gpumap_share_release(map, "both"), 0);
	all_is_released();
}

/* ---- fingerprints -------------------------------------------------------- */

static void a_fingerprint_is_refused_in_words(void)
{
	const struct gpumap_fingerprint other = { .size = sizeof(other),
						  .hash = { 2 },
						  .fields = "model=big\n" };
	struct gpumap_session *session;
	uint64_t id;

	if (!begin(ANY, TWO_ROWS))
		return;
	make_one("tiny", 14);
	if (!restart(ANY, TWO_ROWS))
		return;
	session = session_open(map);
	EQ(gpumap_share_open(session, "tiny", GPUMAP_SHARE_READ_ONLY, &other,
			     &id),
	   -EKEYREJECTED);
	OK(strstr(gpumap_refusal(map), "model is \"tiny\", and \"big\""));
	gpumap_session_close(session);
	EQ(gpumap_share_release(map, "tiny"), 0);
	all_is_released();
}

/* ---- time ---------------------------------------------------------------- */

/* The instant at which it was made counts, and not the agent's start. */
static void a_share_is_as_old_as_before(void)
{
	uint64_t made, now, age;

	if (!begin(ANY, TWO_ROWS))
		return;
	make_one("old", 15);
	made = story_now();
	if (!restart(ANY, TWO_ROWS))
		return;
	now = story_now();
	age = shared("old").age_ns;
	OK(age >= now - made);
	OK(age < STORY_LIMIT_NS);
	EQ(gpumap_share_release(map, "old"), 0);
	all_is_released();
}

/* ---- limits -------------------------------------------------------------- */

#define KEEPS "kept-shares-per-uid = 2\n"
#define LOWER                                        \
	"kept-shares-per-uid = 1\n"                  \
	"exports-per-uid = 1\nimports-per-uid = 1\n" \
	"arena-per-uid = 8M\n"

/* Two are kept, and one would be allowed now. */
static void limits_are_lower(void)
{
	struct player one;

	if (!begin(ANY, TWO_ROWS KEEPS))
		return;
	one = player_start(STRANGER, takes_part);
	EQ(tell(&one, 'k', "one", 20), 0);
	EQ(tell(&one, 'k', "two", 30), 0);
	EQ(tell(&one, 'o', "two", 0), -EALREADY);
	if (!restart(ANY, TWO_ROWS LOWER))
		return;
	EQ(shares_n(), 2);
	EQ(charged(), 4 * BYTES);
	EQ(shared("two").uid, STRANGER);
	/* The process that held them may come back to them. */
	EQ(shared("two").n_holders, 1);
	EQ(tell(&one, 'a', "", 0), 0);
	EQ(tell(&one, 'o', "two", 0), 0);
	EQ(tell(&one, 'v', "", 0), 30);
	/* Without another import, of which there is one. */
	EQ(tell(&one, 'o', "one", 0), 0);
	EQ(tell(&one, 'v', "", 0), -EDQUOT);
	EQ(tell(&one, 'k', "three", 40), -EDQUOT);
	EQ(tell(&one, 'r', "one", 0), 0);
	EQ(tell(&one, 'k', "three", 40), -EDQUOT);
	EQ(tell(&one, 'r', "two", 0), 0);
	player_end(&one, 0);
	all_is_released();
}

/* The user of the share is as before; other users keep what they hold, and open
 * no more. */
static void users_share_no_more(void)
{
	struct player other;

	if (!begin(ANY, TWO_ROWS))
		return;
	make_one("both", 40);
	other = player_start(STRANGER, takes_part);
	EQ(tell(&other, 'o', "both", 0), 0);
	EQ(tell(&other, 'v', "", 0), 40);
	if (!restart("", TWO_ROWS))
		return;
	EQ(shared("both").n_holders, 1);
	EQ(tell(&other, 'a', "", 0), 0);
	EQ(tell(&other, 'o', "both", 0), -EACCES);
	EQ(value_in("both"), 41);
	if (!restart(ANY, TWO_ROWS))
		return;
	EQ(tell(&other, 'a', "", 0), 0);
	EQ(tell(&other, 'o', "both", 0), 0);
	EQ(tell(&other, 'v', "", 0), 40);
	player_end(&other, 0);
	EQ(gpumap_share_release(map, "both"), 0);
	all_is_released();
}

/* Less than is kept: what is there stays, and no share is added until there is
 * room. */
static void the_store_is_smaller(void)
{
	if (!begin(ANY, TWO_ROWS))
		return;
	make_one("first", 50);
	make_one("second", 60);
	stop(SIGTERM);
	store.most = 6;
	if (!start())
		return;
	EQ(shares_n(), 2);
	make_one("third", 70);
	OK(agent_logged(&agent, "event=share_not_kept"));
	EQ(gpumap_share_release(map, "first"), 0);
	EQ(gpumap_share_release(map, "second"), 0);
	comes_to(0);
	make_one("fourth", 80);
	EQ(agent_count_log(&agent, "event=share_not_kept"), 1);
	stop(SIGTERM);
	if (!start())
		return;
	EQ(shares_n(), 1);
	EQ(value_in("fourth"), 81);
	EQ(gpumap_share_release(map, "fourth"), 0);
	all_is_released();
}

/* The descriptors that a user has in the store count over a restart: a quarter
 * of the store is for two shares of four descriptors. */
static void a_users_part_of_the_store_is_counted(void)
{
	struct player one;

	store.most = 32;
	if (!begin(ANY, TWO_ROWS "kept-shares-per-uid = 9\n"))
		return;
	one = player_start(STRANGER, takes_part);
	EQ(tell(&one, 'k', "one", 1), 0);
	if (!restart(ANY, TWO_ROWS "kept-shares-per-uid = 9\n"))
		return;
	EQ(tell(&one, 'a', "", 0), 0);
	EQ(tell(&one, 'k', "two", 2), 0);
	EQ(agent_count_log(&agent, "its user has a quarter"), 0);
	EQ(tell(&one, 'k', "three", 3), 0);
	EQ(agent_count_log(&agent, "its user has a quarter"), 1);
	EQ(tell(&one, 'r', "one", 0), 0);
	EQ(tell(&one, 'k', "four", 4), 0);
	EQ(agent_count_log(&agent, "its user has a quarter"), 1);
	EQ(tell(&one, 'r', "two", 0), 0);
	EQ(tell(&one, 'r', "three", 0), 0);
	EQ(tell(&one, 'r', "four", 0), 0);
	stop(SIGTERM);
	/* One less. */
	store.most = 31;
	if (!start())
		return;
	EQ(tell(&one, 'a', "", 0), 0);
	EQ(tell(&one, 'k', "five", 5), 0);
	EQ(agent_count_log(&agent, "its user has a quarter"), 0);
	EQ(tell(&one, 'k', "six", 6), 0);
	EQ(agent_count_log(&agent, "its user has a quarter"), 1);
	EQ(tell(&one, 'r', "five", 0), 0);
	EQ(tell(&one, 'r', "six", 0), 0);
	player_end(&one, 0);
	all_is_released();
}

/* ---- models -------------------------------------------------------------- */

#define ZEROS "0000000000000000000000000000000" /* 31 */
#define SECTION(user, more)                                                  \
	TWO_ROWS "[model chat]\npath = /nonexistent\nuser = " user "\n" more \
		 "\n"

/* The agent compares them after it has said that it is ready. */
static bool differs_in(const char *key)
{
	uint64_t limit = story_now() + STORY_LIMIT_NS;
	char text[64];

	snprintf(text, sizeof(text), "event=model_differs name=\"chat\" key=%s",
		 key);
	while (!agent_logged(&agent, text) && story_now() < limit)
		story_nap(1000);
	return agent_logged(&agent, text);
}

/* The model that is there counts as the listed one, and the log says where its
 * section means another. */
static void models_are_listed_and_are_not(void)
{
	struct player one;

	if (!begin(ANY, SECTION("65534", "")))
		return;
	one = player_start(NOBODY, takes_part);
	EQ(tell(&one, 'k', "chat", 90), 0);
	EQ(tell(&one, 'k', "other", 95), -EDQUOT);
	player_end(&one, SIGKILL);
	if (!restart(ANY, SECTION("65534", "fingerprint = 01" ZEROS ZEROS)))
		return;
	OK(!agent_logged(&agent, "event=model_differs"));
	OK(!agent_logged(&agent, "event=model_loading"));
	if (!restart(ANY, SECTION("65534", "fingerprint = 02" ZEROS ZEROS)))
		return;
	OK(differs_in("fingerprint"));
	if (!restart(ANY, SECTION("65534", "users = any")))
		return;
	OK(differs_in("users"));
	if (!restart(ANY, SECTION("65534", "users = 7,8")))
		return;
	OK(differs_in("users"));
	if (!restart(ANY, SECTION("0", "")))
		return;
	OK(differs_in("user "));
	OK(!agent_logged(&agent, "event=model_loading"));
	/* In no section any more, it stays. */
	if (!restart(ANY, TWO_ROWS))
		return;
	OK(!agent_logged(&agent, "event=model_differs"));
	EQ(shares_n(), 1);
	EQ(shared("chat").uid, NOBODY);
	EQ(charged(), 2 * BYTES);
	EQ(gpumap_share_release(map, "chat"), 0);
	all_is_released();
}

/* No other user can take it, from before the model is loaded on. */
static void a_listed_name_is_its_users(void)
{
	struct player one, stranger;

	agent.loader = "/no-such-program";
	if (!begin(ANY, SECTION("65534", "")))
		return;
	one = player_start(NOBODY, takes_part);
	stranger = player_start(STRANGER, takes_part);
	EQ(tell(&stranger, 'c', "chat", 0), -EACCES);
	EQ(tell(&stranger, 's', "chat", 0), -EACCES);
	EQ(tell(&stranger, 'c', "other", 0), 0);
	EQ(tell(&stranger, 's', "third", 0), 0);
	EQ(tell(&one, 'c', "chat", 0), 0);
	EQ(tell(&one, 's', "chat", 0), 0);
	player_end(&stranger, 0);
	player_end(&one, 0);
	all_is_released();
	agent.loader = NULL;
}

TAP_CASE()
{
	if (geteuid() != 0) {
		SKIP(1, "needs root, for shares of other users");
		return tap_done();
	}
	shares_stage(ANY, TWO_ROWS);
	if (!EQ(store_open(&store, MOST), 0))
		return tap_done();
	rows_are_others();
	host_rows_become_dummies();
	dummies_come_beside_them();
	a_fingerprint_is_refused_in_words();
	a_share_is_as_old_as_before();
	limits_are_lower();
	users_share_no_more();
	the_store_is_smaller();
	a_users_part_of_the_store_is_counted();
	models_are_listed_and_are_not();
	a_listed_name_is_its_users();
	if (tap_failures)
		agent_show_log(&agent);
	store_close(&store);
	stage_end(&agent);
	return tap_done();
}
