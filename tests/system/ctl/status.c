/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl with a running agent, with none, and with a dead one:
 * status, devices, sessions, scatter, and wrong command lines.
 */

#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/ctl.h"
#include "tests/support/story.h"

#define CONFIG "[host]\nrows = 2\n[map model]\nspec = 0:2;1:3\n"

/* ---- what there is ------------------------------------------------------- */

static void status_tells_of_the_agent(void)
{
	json_t *json;

	EQ(CTL("status"), DONE);
	OK(prints("state       READY\n") && prints("layer maps  1\n"));
	EQ(CTL("status", "--json"), DONE);
	json = object();
	OK(has_fields(json, "instance state stale age_ns epoch generation "
			    "tick agent_pid bytes rows maps cluster"));
	STR(text(json, "instance"), agent.instance);
	STR(text(json, "state"), "READY");
	OK(json_is_false(json_object_get(json, "stale")));
	EQ(number(json, "epoch"), 1);
	EQ(number(json, "agent_pid"), agent.pid);
	EQ(number(json, "bytes"), 4 * MIB);
	EQ(number(json, "rows"), 2);
	EQ(number(json, "maps"), 1);
	OK(number(json, "age_ns") >= 0 && number(json, "generation") > 0);
	OK(json_is_null(json_object_get(json, "cluster")));
	json_decref(json);
}

static void status_tells_of_the_cluster(void)
{
	static const struct cluster_nodes nodes = { 3, 1, 1, 1 };
	struct gpumap *map = story_attach(&agent);
	const json_t *cluster;
	json_t *json;

	EQ(CTL("status"), DONE);
	OK(!prints("cluster"));
	EQ(cluster_nodes_publish(map, &nodes, 0), 0);
	EQ(CTL("status"), DONE);
	OK(prints("cluster     c, this node is n0000; 3 nodes, 0 gone, 0 "
		  "refused; STALE"));
	EQ(CTL("status", "--json"), DONE);
	json = object();
	cluster = json_object_get(json, "cluster");
	OK(has_fields(cluster, "name node nodes gone refused stale"));
	STR(text(cluster, "name"), "c");
	STR(text(cluster, "node"), "n0000");
	EQ(number(cluster, "nodes"), 3);
	EQ(number(cluster, "gone"), 0);
	OK(json_is_true(json_object_get(cluster, "stale")));
	json_decref(json);
	gpumap_detach(map);
}

static void devices_are_listed(void)
{
	const json_t *devices, *d;
	json_t *json;
	size_t i;

	EQ(CTL("devices"), DONE);
	OK(prints("\n  0  host  READY ") && prints("\n  1  host  READY "));
	EQ(CTL("--json", "devices"), DONE);
	json = object();
	devices = list(json, "devices", 2);
	json_array_foreach(devices, i, d)
	{
		OK(has_fields(
			d, "row row_generation uuid name kind state "
			   "reason error since_ns numa_node units cpus "
			   "compute_capability main_memory integrated cordoned "
			   "total_bytes free_bytes reserved_bytes "
			   "budget_bytes score worker_pid restarts "
			   "used_by_holders no_figures"));
		EQ(number(d, "row"), (intmax_t)i);
		STR(text(d, "kind"), "host");
		STR(text(d, "state"), "READY");
		EQ((intmax_t)json_string_length(json_object_get(d, "uuid")),
		   36);
		OK(number(d, "total_bytes") > 0 && number(d, "units") > 0);
		OK(number(d, "free_bytes") <= number(d, "total_bytes"));
		OK(kill((pid_t)number(d, "worker_pid"), 0) == 0);
		EQ(number(d, "restarts"), 0);
		OK(json_is_null(json_object_get(d, "compute_capability")));
		OK(json_is_true(json_object_get(d, "main_memory")));
		OK(json_is_false(json_object_get(d, "integrated")));
	}
	json_decref(json);
}

static const char *own_name(void)
{
	const struct passwd *user_of = getpwuid(getuid());

	return user_of != NULL ? user_of->pw_name : "";
}

static void sessions_are_listed(void)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = agent.instance,
					   .runtime_dir = agent.dir };
	struct gpumap_session_opts asked = { .size = sizeof(asked),
					     .depth = 32,
					     .arena_bytes = MIB };
	struct gpumap_session *session = NULL;
	struct gpumap *map = NULL;
	const json_t *s;
	json_t *json;

	EQ(CTL("sessions", "--json"), DONE);
	json = object();
	list(json, "sessions", 0);
	json_decref(json);
	EQ(gpumap_attach(&opts, &map), 0);
	EQ(gpumap_session_open(map, &asked, &session), 0);
	/* A terminal must not obey the name of a process. */
	EQ(prctl(PR_SET_NAME, "mine\033[2J"), 0);
	EQ(CTL("sessions"), DONE);
	OK(prints(" mine?[2J ") && prints(own_name()));
	EQ(CTL("sessions", "--json"), DONE);
	json = object();
	s = json_array_get(list(json, "sessions", 1), 0);
	OK(has_fields(s,
		      "id pid command uid user queues rows depth arena_bytes "
		      "load_bytes load_total_bytes "
		      "age_ns"));
	EQ(number(s, "pid"), getpid());
	EQ(number(s, "uid"), getuid());
	STR(text(s, "command"), "mine?[2J");
	STR(text(s, "user"), own_name());
	EQ(number(s, "depth"), 32);
	EQ(number(s, "queues"), 0); /* queues are opened at their first use */
	OK(number(s, "arena_bytes") >= (json_int_t)MIB);
	json_decref(json);
	gpumap_session_close(session);
	gpumap_detach(map);
}

/* ---- scatter ------------------------------------------------------------- */

static void a_scatter_is_right(const char *op, json_int_t element,
			       const char *rows, size_t n_rows)
{
	json_int_t next = 0, n = (json_int_t)MIB / element;
	const json_t *tile;
	json_t *json;
	size_t i;

	if (rows != NULL)
		EQ(CTL("scatter", "--json", "--op", op, "--bytes", "1048577",
		       "--rounds", "2", "--rows", rows),
		   DONE);
	else
		EQ(CTL("scatter", "--json", "--op", op, "--bytes", "1048577",
		       "--rounds", "2"),
		   DONE);
	json = object();
	OK(has_fields(json, "op bytes rounds best_ns gigabytes_per_second "
			    "right tiles"));
	STR(text(json, "op"), op);
	OK(json_is_true(json_object_get(json, "right")));
	EQ(number(json, "rounds"), 2);
	n += element == 1;
	EQ(number(json, "bytes"), n * element);
	json_array_foreach(list(json, "tiles", n_rows), i, tile)
	{
		OK(has_fields(tile, "row first n status"));
		EQ(number(tile, "status"), 0);
		EQ(number(tile, "first"), next);
		next += number(tile, "n");
	}
	EQ(next, n);
	json_decref(json);
}

static void scatters_are_right(void)
{
	static const struct {
		const char *op;
		json_int_t element;
	} ops[] = {
		{ "copy", 1 }, { "fill", 1 },      { "scale", 4 },
		{ "axpy", 4 }, { "cast", 4 },      { "mask_add", 4 },
		{ "sum", 4 },  { "mask_bool", 4 }, { "min", 4 },
		{ "max", 4 },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		NOTE("%s", ops[i].op);
		a_scatter_is_right(ops[i].op, ops[i].element, NULL, 2);
		a_scatter_is_right(ops[i].op, ops[i].element, "1", 1);
		a_scatter_is_right(ops[i].op, ops[i].element, "1,0", 2);
	}
	/* Large enough to lie at multiples of 2 MiB, on either row. */
	EQ(CTL("scatter", "--bytes", "3000000", "--rows", "0"), DONE);
	EQ(CTL("scatter", "--bytes", "3000000", "--rows", "1"), DONE);
	EQ(CTL("scatter", "--bytes", "1M"), DONE);
	OK(prints("copy of 1.0 MiB over 2 rows: every element is right"));
	EQ(CTL("scatter", "--op", "sum", "--bytes", "1M"), DONE);
	OK(prints("sum of 1.0 MiB over 2 rows: every row's result is right"));
	EQ(CTL("scatter", "--rows", "5", "--bytes", "1M"), FAILED);
	OK(complains("there is no row 5: gpumapctl devices lists them"));
	EQ(CTL("scatter", "--bytes", "1000000G"), USAGE);
	OK(complains("--bytes of copy is from 1, an element, to 1T"));
	EQ(CTL("scatter", "--op", "sum", "--bytes", "3"), USAGE);
	OK(complains("--bytes of sum is from 4"));
}

/* ---- the command line ---------------------------------------------------- */

static void a_wrong_option_is_named(void)
{
	EQ(CTL("--frobnicate"), USAGE);
	OK(complains("\"--frobnicate\" is no option"));
	EQ(CTL("drain", "-1"), USAGE);
	OK(complains("\"-1\" is no option"));
	EQ(CTL("status", "-xh"), USAGE);
	OK(complains("\"-x\" is no option"));
	EQ(CTL("status", "--json=yes"), USAGE);
	OK(complains("\"--json=yes\" takes no value"));
	EQ(CTL("publish", "m", "--spec"), USAGE);
	OK(complains("\"--spec\" wants a value"));
	EQ(CTL("status", "--instance"), USAGE);
	OK(complains("\"--instance\" wants a value"));
	EQ(CTL("scatter", "--bytes", "2T"), USAGE);
	OK(complains("--bytes of copy is from 1, an element, to 1T"));
	EQ(CTL("scatter", "--bytes", "3P"), USAGE);
	OK(complains("--bytes: \"3P\" is no size: bytes, or K, M, G or T"));
	EQ(CTL("publish", "m", "--spec", "1", "--layers", "0"), USAGE);
	OK(complains("--layers: \"0\" is less than one"));
}

/* A name that is invalid everywhere is refused before the agent is asked for
 * it. */
static void a_name_that_is_none_is_refused(void)
{
	static const char *const taking[] = { "layers", "release" };
	static char longest[GPUMAP_NAME_MAX + 2];

	memset(longest, 'n', GPUMAP_NAME_MAX + 1);
	for (size_t i = 0; i < sizeof(taking) / sizeof(taking[0]); i++) {
		EQ(CTL(taking[i], ""), USAGE);
		OK(complains("is no name, which has 1 to 63 bytes"));
		EQ(CTL(taking[i], longest), USAGE);
		OK(complains("is no name, which has 1 to 63 bytes"));
		EQ(CTL(taking[i], longest + 1), FAILED);
		OK(complains("gpumapctl maps lists"));
	}
	EQ(CTL("shares", "release", "nobody"), FAILED);
	OK(complains("no share \"nobody\"; gpumapctl shares lists"));
	EQ(ctl_of("no/name", WORDS("status")), USAGE);
	OK(complains("\"no/name\" is no name of an instance: it has 1 to 63"));
	EQ(ctl_of("", WORDS("status")), USAGE);
}

static void a_row_that_is_none_is_refused(void)
{
	static const char *const taking[] = { "drain", "undrain" };

	for (size_t i = 0; i < sizeof(taking) / sizeof(taking[0]); i++) {
		EQ(CTL(taking[i], "one"), USAGE);
		OK(complains("\"one\" is no row: gpumapctl devices lists"));
		EQ(CTL(taking[i], "2"), FAILED);
		OK(complains("there is no row 2: gpumapctl devices lists"));
	}
}

static void a_wrong_command_line_is_refused(void)
{
	EQ(CTL("frobnicate"), USAGE);
	OK(complains("\"frobnicate\" is no command"));
	EQ(CTL("devises"), USAGE);
	OK(complains("\"devises\" is no command: did you mean devices?"));
	EQ(CTL("tip"), USAGE);
	OK(complains("did you mean top?"));
	EQ(CTL("x"), USAGE);
	OK(!complains("did you mean"));
	EQ(CTL("layers"), USAGE);
	EQ(CTL("layers", "a", "b"), USAGE);
	OK(complains("\"layers\" takes 1 operand, not 2: layers NAME; see"));
	EQ(CTL("shares", "mine"), USAGE);
	OK(complains("\"shares\" takes 0 operands, not 1: shares release or "));
	EQ(CTL("status", "--bytes", "1"), USAGE);
	OK(complains("does not take"));
	EQ(CTL("maps", "--spec", "1"), USAGE);
	EQ(CTL("release", "model", "--model", "x"), USAGE);
	EQ(CTL("publish", "x"), USAGE);
	OK(complains("publish needs --spec"));
	EQ(CTL("publish", "x", "--spec", "1", "--layers", "1", "--model", "y"),
	   USAGE);
	EQ(CTL("publish", "x", "--spec", "1", "--layers", "many"), USAGE);
	EQ(CTL("publish", "x", "--spec", "1", "--layers", "4294967296"), USAGE);
	EQ(CTL("scatter", "--op", "divide"), USAGE);
	OK(complains("cast, mask_add, mask_bool, sum, min or max"));
	EQ(CTL("scatter", "--bytes", "1X"), USAGE);
	EQ(CTL("scatter", "--bytes", "0"), USAGE);
	EQ(CTL("scatter", "--rounds", "0"), USAGE);
	EQ(CTL("scatter", "--rows", "0,0"), USAGE);
	EQ(CTL("scatter", "--rows", "256"), USAGE);
	EQ(run(WORDS(ctl_program())), USAGE);
	EQ(CTL("--help"), DONE);
	OK(prints("usage: gpumapctl"));
	EQ(CTL("--version"), DONE);
}

static void output_that_goes_nowhere_is_a_failure(void)
{
	output = "/dev/full";
	EQ(CTL("maps"), FAILED);
	EQ(CTL("status", "--json"), FAILED);
	EQ(CTL("--help"), FAILED);
	EQ(CTL("--version"), FAILED);
	output = NULL;
}

/* ---- agents that are not there ------------------------------------------- */

static void without_an_agent_each_says_so(void)
{
	static const char *const plain[] = { "status", "devices", "maps",
					     "sessions", "scatter" };

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		EQ(ctl_of("test.nobody", WORDS(plain[i])), NO_AGENT);
		OK(complains("start gpumapd"));
	}
	EQ(ctl_of("test.nobody", WORDS("layers", "m")), NO_AGENT);
	EQ(ctl_of("test.nobody", WORDS("release", "m")), NO_AGENT);
	EQ(ctl_of("test.nobody", WORDS("publish", "m", "--spec", "1")),
	   NO_AGENT);
}

/* Neither a damaged map is attached, nor one that every user may write. */
static void a_strange_map_is_not_attached(void)
{
	char instance[48], path[GM_NAMES_BYTES];
	int fd;

	snprintf(instance, sizeof(instance), "test.strange.%d", (int)getpid());
	shm_names_file(path, instance, "map");
	OK(shm_names_make(instance));
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	OK(fd >= 0 && ftruncate(fd, MIB) == 0);
	EQ(ctl_of(instance, WORDS("status")), FAILED);
	OK(complains("of another version of gpumap, or damaged: use its "));
	EQ(fchmod(fd, 0666), 0);
	EQ(ctl_of(instance, WORDS("status")), FAILED);
	OK(complains("name its runtime directory"));
	close(fd);
	shm_names_remove(instance);
}

static void wait_until_stale(void)
{
	for (int i = 0; i < AGENT_LIMIT_MS / 10 && CTL("status") == DONE; i++)
		usleep(10000);
}

static void a_dead_agents_map_can_be_read(void)
{
	json_t *json;

	agent_kill(&agent, SIGKILL);
	wait_until_stale();
	EQ(CTL("status"), UNWELL);
	OK(prints(", STALE: the agent has not been seen; is gpumapd "
		  "running?"));
	EQ(CTL("status", "--json"), UNWELL);
	json = object();
	OK(json_is_true(json_object_get(json, "stale")));
	json_decref(json);
	EQ(CTL("devices"), DONE);
	OK(strstr(err, "the agent has not been seen for ") != NULL);
	EQ(CTL("maps"), DONE);
	EQ(CTL("layers", "model", "--json"), DONE);
	OK(strstr(err, "is what it said last") != NULL);
	EQ(CTL("sessions"), NO_AGENT);
	OK(complains("gpumapd"));
	EQ(CTL("who"), NO_AGENT);
	OK(prints("reserved") && strstr(err, "is gpumapd running?") != NULL);
	EQ(CTL("who", "--json"), NO_AGENT);
	OK(prints("{\"reservations\":[],\"waits\":null,\"usage\":null}"));
	EQ(CTL("scatter", "--bytes", "1M"), NO_AGENT);
	EQ(CTL("release", "model"), NO_AGENT);
	EQ(CTL("publish", "m", "--spec", "1"), NO_AGENT);

	OK(agent_start(&agent));
	EQ(CTL("status", "--json"), DONE);
	json = object();
	EQ(number(json, "epoch"), 2);
	json_decref(json);
}

static void an_agent_that_ended_is_unwell(void)
{
	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(CTL("status"), UNWELL);
	OK(prints("state       DRAINING"));
	EQ(agent_run(&agent, "--remove"), 0);
	EQ(CTL("status"), NO_AGENT);
}

TAP_CASE()
{
	if (!ctl_start(CONFIG))
		return tap_done();
	status_tells_of_the_agent();
	status_tells_of_the_cluster();
	devices_are_listed();
	sessions_are_listed();
	scatters_are_right();
	a_wrong_option_is_named();
	a_name_that_is_none_is_refused();
	a_row_that_is_none_is_refused();
	a_wrong_command_line_is_refused();
	output_that_goes_nowhere_is_a_failure();
	without_an_agent_each_says_so();
	a_strange_map_is_not_attached();
	a_dead_agents_map_can_be_read();
	an_agent_that_ended_is_unwell();
	agent_remove(&agent);
	return tap_done();
}
