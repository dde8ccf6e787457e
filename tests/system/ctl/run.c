/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl run: the command is the holder of the reservation, has the
 * caller's environment but for what the page lists, and nothing else of
 * gpumapctl's; refusals, and what becomes of the command without an agent.
 */

#include <gpumap/plan.h>

#include "tests/support/run.h"

static struct gpumap *map;
static char cache[96];

#define RUN(...) CTL("run", "--cache-dir", cache, __VA_ARGS__)

/* ---- the command line ---------------------------------------------------- */

static void wrong_options_are_told(void)
{
	EQ(RUN("true"), USAGE);
	OK(complains("give one of --reserve, --map and --model"));
	EQ(RUN("--reserve", "1M", "--map", "m", "true"), USAGE);
	EQ(RUN("--reserve", "1X", "true"), USAGE);
	OK(complains("--reserve: \"1X\" is no size: bytes, or K, M, G or T"));
	EQ(RUN("--reserve", "1M"), USAGE);
	OK(complains("needs a command to run"));
	EQ(RUN("--reserve", "1M", "--ready-tcp", "80", "true"), USAGE);
	OK(complains("need --gate"));
	EQ(RUN("--reserve", "1M", "--gate", "--ready-tcp", "65536", "true"),
	   USAGE);
	EQ(RUN("--reserve", "1M", "--gate", "--ready-file", "", "true"), USAGE);
	OK(complains("--ready-file is a path"));
	EQ(RUN("--reserve", "1M", "--no-agent", "maybe", "true"), USAGE);
	EQ(RUN("--reserve", "1M", "--name", "", "true"), USAGE);
	EQ(RUN("--reserve", "1M", "--for", "gcc", "true"), USAGE);
	EQ(RUN("--reserve", "1M", "--for", "accelerate", "true"), USAGE);
	EQ(RUN("--reserve", "1M", "--json", "true"), USAGE);
	EQ(RUN("--map", "m", "--rows", "0", "true"), USAGE);
	EQ(RUN("--reserve", "1M", "--spec", "0:1", "true"), USAGE);
	OK(complains("the options of plan need --model"));
	EQ(RUN("--map", "m", "--max-batch", "2", "true"), USAGE);
	OK(complains("the options of plan need --model"));
	EQ(RUN("--model", "m", "--commit", "n", "true"), USAGE);
	EQ(RUN("--model", "m", "--node", "n", "true"), USAGE);
	EQ(RUN("--model", "m", "--strategy", "worst", "true"), USAGE);
	OK(complains("--strategy is fill, balance or fewest"));
	EQ(RUN("--reserve", "1M", "--rows", "9", "true"), FAILED);
	OK(complains("there is no row 9"));
}

/* Words behind the command's are its own. */
static void options_end_with_the_command(void)
{
	EQ(RUN("--reserve", "1M", "echo", "--rows", "9", "-h", "--", "--json"),
	   0);
	STR(out, "--rows 9 -h -- --json\n");
	EQ(RUN("--reserve", "1M", "--", "printf", "--", "%s\n", "--version"),
	   0);
	STR(out, "--version\n");
	EQ(CTL("devices", "--json", "--", "x"), USAGE);
	EQ(CTL("layers", "--json", "nothing"), FAILED);
}

static void commands_are_looked_up_first(void)
{
	char plain[128], folder[160];
	FILE *file;

	/* Its name becomes a map's, which may have less. */
	snprintf(plain, sizeof(plain), "%s/a \xff%050d", agent.dir, 0);
	EQ(symlink("/bin/sh", plain), 0);
	EQ(RUN("--reserve", "1M", "--", plain, "-c", "echo ${GPUMAP_MAP%.*}"),
	   0);
	STR(out, "run.a__00000000000000000000000000000000000000000000000\n");
	unlink(plain);
	snprintf(plain, sizeof(plain), "%s/plain", agent.dir);
	snprintf(folder, sizeof(folder), "PATH=%s", agent.dir);
	file = fopen(plain, "we");
	OK(file != NULL && fclose(file) == 0);
	EQ(RUN("--reserve", "900G", "no-such-command"), NOT_FOUND);
	OK(complains("no-such-command: there is no such command"));
	EQ(RUN("--reserve", "900G", "/no/such/command"), NOT_FOUND);
	EQ(RUN("--reserve", "900G", plain), NOT_EXECUTABLE);
	EQ(RUN("--reserve", "900G", agent.dir), NOT_EXECUTABLE);
	EQ(run((const char *const[]){
		   "env", folder, run_libraries, run_program, "--instance",
		   agent.instance, "--runtime-dir", agent.dir, "run",
		   "--cache-dir", cache, "--reserve", "1M", "plain", NULL }),
	   NOT_EXECUTABLE);
	unlink(plain);
}

/* ---- what the command is ------------------------------------------------- */

static void the_command_is_the_holder(void)
{
	char script[640];
	const json_t *held, *row;
	json_t *json;

	snprintf(script, sizeof(script),
		 "echo $$ >&2; exec '%s' --instance %s --runtime-dir '%s' "
		 "--json who",
		 ctl_program(), agent.instance, agent.dir);
	EQ(RUN("--reserve", "8M", "--rows", "2", "--name", "mine", "--", "sh",
	       "-c", script),
	   0);
	json = json_loads(out, 0, NULL);
	held = json_array_get(list(json, "reservations", 1), 0);
	STR(text(held, "name"), "mine");
	EQ(number(held, "pid"), atoi(err));
	EQ(number(held, "bytes"), 8 << 20);
	row = json_array_get(list(held, "rows", 1), 0);
	EQ(number(row, "row"), 2);
	OK(strstr(text(held, "command_line"), " --json who") != NULL);
	json_decref(json);
	OK(run_all_gone(map));
}

static void its_end_is_passed_on(void)
{
	EQ(RUN("--reserve", "1M", "--", "sh", "-c", "exit 7"), 7);
	EQ(RUN("--reserve", "1M", "--", "sh", "-c", "kill -TERM $$"), -SIGTERM);
	EQ(RUN("--reserve", "1M", "--", "sh", "-c", "kill -KILL $$"), -SIGKILL);
}

/* The masks of signals in what was printed, but for the two that glibc keeps
 * for itself. */
static void keep_masks(char ret_lines[1024])
{
	size_t n = 0;

	ret_lines[0] = '\0';
	for (char *line = strtok(out, "\n"); line != NULL;
	     line = strtok(NULL, "\n")) {
		unsigned long long mask;
		char name[8];

		if (sscanf(line, "%7[^:]: %llx", name, &mask) != 2 ||
		    (strncmp(name, "Sig", 3) != 0 &&
		     strncmp(name, "Shd", 3) != 0) ||
		    name[3] == 'Q')
			continue;
		n += (size_t)snprintf(ret_lines + n, 1024 - n, "%s %llx\n",
				      name, mask & ~(3ULL << 31));
	}
}

/* Take them of a command that the program itself runs: a shell would change
 * them. */
#define MASKS(ret, ...)                                                       \
	do {                                                                  \
		EQ(run((const char *const[]){                                 \
			   "env", run_libraries, run_program, "--instance",   \
			   agent.instance, "--runtime-dir", agent.dir, "run", \
			   "--cache-dir", cache, "--reserve", "1M",           \
			   __VA_ARGS__, "cat", "/proc/self/status", NULL }),  \
		   0);                                                        \
		keep_masks(ret);                                              \
	} while (0)

static void signals_are_the_callers(void)
{
	char plain[1024], ours[1024];
	sigset_t blocked, own;

	signal(SIGUSR1, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, &own);
	EQ(run((const char *const[]){ "cat", "/proc/self/status", NULL }), 0);
	keep_masks(plain);
	OK(strstr(plain, "SigBlk 10800\n") && strstr(plain, "SigIgn 201\n"));
	MASKS(ours, "--rows", "1");
	STR(ours, plain);
	MASKS(ours, "--wait", "9", "--gate");
	STR(ours, plain);
	sigprocmask(SIG_SETMASK, &own, NULL);
	signal(SIGUSR1, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
}

/* Neither descriptors nor children. */
static void nothing_of_ours_is_left(void)
{
	static const char *const script =
		"ls /proc/self/fd | wc -l; "
		"cat /proc/$$/task/$$/children; echo .";
	char plain[64];

	EQ(run((const char *const[]){ "sh", "-c",
				      "ls /proc/self/fd | wc -l; "
				      "echo .",
				      NULL }),
	   0);
	snprintf(plain, sizeof(plain), "%.60s", out);
	EQ(RUN("--reserve", "1M", "--wait", "9", "sh", "-c",
	       "ls /proc/self/fd | wc -l; echo ."),
	   0);
	STR(out, plain);
	EQ(RUN("--reserve", "1M", "--gate", "sh", "-c",
	       "ls /proc/self/fd | wc -l; echo ."),
	   0);
	STR(out, plain);
	/* The one child that it lists is cat. */
	EQ(RUN("--reserve", "1M", "--gate", "sh", "-c", script), 0);
	OK(strchr(out, '\n') != NULL && strchr(out, ' ') == strrchr(out, ' '));
}

/* ---- the environment ----------------------------------------------------- */

static void the_environment_is_as_the_page_says(void)
{
	char want[4096];

	EQ(run((const char *const[]){ "env",
				      "-i",
				      "A=b c",
				      "PATH=/usr/bin:/bin",
				      "GPUMAP_MAP=x",
				      "CUDA_CACHE_PATH=",
				      run_libraries,
				      run_program,
				      "--instance",
				      agent.instance,
				      "--runtime-dir",
				      agent.dir,
				      "run",
				      "--reserve",
				      "1M",
				      "--rows",
				      "1,2",
				      "--name",
				      "golden",
				      "--cache-dir",
				      cache,
				      "env",
				      NULL }),
	   0);
	snprintf(want, sizeof(want),
		 "A=b c\n"
		 "PATH=/usr/bin:/bin\n"
		 "CUDA_CACHE_PATH=\n"
		 "%s\n"
		 "TRITON_CACHE_DIR=%s/triton\n"
		 "TORCHINDUCTOR_CACHE_DIR=%s/inductor\n"
		 "VLLM_CACHE_ROOT=%s/vllm\n"
		 "CUDA_VISIBLE_DEVICES=-1\n"
		 "CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
		 "GPUMAP_INSTANCE=%s\n"
		 "GPUMAP_RUNTIME_DIR=%s\n"
		 "GPUMAP_MAP=golden\n"
		 "GPUMAP_ROWS=1,2\n",
		 run_libraries, cache, cache, cache, agent.instance, agent.dir);
	STR(out, want);
	STR(err, "");
}

/* Each default is this user's alone, or is not used. */
static void caches_are_this_users(void)
{
	char home[128], below[192], want[256];
	const char *const argv[] = { "env",
				     "-i",
				     home,
				     "PATH=/usr/bin:/bin",
				     run_libraries,
				     run_program,
				     "--instance",
				     agent.instance,
				     "--runtime-dir",
				     agent.dir,
				     "run",
				     "--reserve",
				     "1M",
				     "--print-env",
				     "true",
				     NULL };
	struct stat st;

	snprintf(below, sizeof(below), "%s/new/deep", cache);
	EQ(CTL("run", "--reserve", "1M", "--cache-dir", below, "true"), 0);
	EQ(stat(below, &st), 0);
	EQ(st.st_mode & 0777, 0700);
	EQ(CTL("run", "--reserve", "1M", "--cache-dir", "/proc/none", "true"),
	   FAILED);
	OK(complains("--cache-dir /proc/none: "));
	if (!ctl_as_another(3))
		return;
	snprintf(home, sizeof(home), "HOME=%s/home", agent.dir);
	snprintf(below, sizeof(below), "%s/home", agent.dir);
	EQ(mkdir(below, 0700), 0);
	EQ(run(argv), 0);
	OK(strstr(out, "TRITON") == NULL &&
	   strstr(err, "no cache directories are set") != NULL);
	EQ(chown(below, NOBODY, NOBODY), 0);
	EQ(run(argv), 0);
	snprintf(want, sizeof(want), "TRITON_CACHE_DIR=%s/.cache/gpumap/",
		 below);
	OK(prints(want) || prints("TRITON_CACHE_DIR=/var/cache/gpumap/65534/"));
	user = 0;
	rmdir(below);
}

static void it_is_printed_alone(void)
{
	const json_t *env, *rows;
	json_t *json;

	EQ(RUN("--reserve", "3M", "--rows", "0,2", "--name", "a'b",
	       "--print-env", "true"),
	   0);
	OK(prints("GPUMAP_MAP='a'\\''b'\nGPUMAP_ROWS=0,2\n") &&
	   !prints("NOTIFY_SOCKET"));
	EQ(access(cache, F_OK), -1);
	EQ(RUN("--reserve", "3M", "--rows", "0,1", "--print-env", "--json",
	       "--for", "vllm", "vllm", "serve"),
	   NOT_FOUND);
	EQ(RUN("--reserve", "3M", "--rows", "0,1", "--print-env", "--json",
	       "--", "sh", "-c", "exit 9"),
	   0);
	json = object();
	OK(has_fields(json, "env argv rows bytes cpus nodes"));
	env = json_object_get(json, "env");
	STR(text(env, "GPUMAP_ROWS"), "0,1");
	EQ((intmax_t)json_array_size(json_object_get(json, "argv")), 3);
	rows = list(json, "rows", 2);
	EQ(number(json_array_get(rows, 1), "row"), 1);
	EQ(number(json_array_get(rows, 1), "bytes"), 3 << 20);
	EQ(number(json, "bytes"), 6 << 20);
	json_decref(json);
	/* The host's row has CPUs, and may be asked for alone. */
	EQ(RUN("--reserve", "3M", "--rows", "0", "--print-env", "--json",
	       "true"),
	   0);
	json = object();
	OK(json_is_string(json_object_get(json, "cpus")));
	json_decref(json);
	/* A row without memory of it. */
	EQ(RUN("--reserve", "0", "--rows", "1,2", "--any", "--print-env",
	       "true"),
	   0);
	/* One of two cards. */
	EQ(RUN("--reserve", "3M", "--rows", "1,2", "--any", "--print-env",
	       "true"),
	   0);
	OK(prints("GPUMAP_ROWS=1\n"));
	OK(run_all_gone(map));
}

/* ---- rows, maps, room ---------------------------------------------------- */

static void the_fullest_row_that_suffices_is_taken(void)
{
	struct run_job first;

	RUN_START(&first, "--cache-dir", cache, "--rows", "2", "--reserve",
		  "300M", "--", "sh", "-c", "echo up; exec sleep 600");
	OK(run_printed(&first, first.out, "up"));
	EQ(RUN("--reserve", "600M", "--rows", "1,2", "--any", "--", "sh", "-c",
	       "echo $GPUMAP_ROWS"),
	   0);
	STR(out, "2\n");
	EQ(RUN("--reserve", "800M", "--rows", "1,2", "--any", "--", "sh", "-c",
	       "echo $GPUMAP_ROWS"),
	   0);
	STR(out, "1\n");
	EQ(RUN("--reserve", "800M", "--rows", "1,2", "true"), NOT_NOW);
	EQ(RUN("--reserve", "1G", "--rows", "2", "true"), NOT_NOW);
	/* More than there ever is. */
	EQ(RUN("--reserve", "2G", "--rows", "1,2", "--any", "true"), FAILED);
	EQ(RUN("--reserve", "2G", "--rows", "1,2", "true"), FAILED);
	EQ(RUN("--reserve", "2G", "--rows", "1", "true"), FAILED);
	EQ(RUN("--reserve", "900000G", "true"), FAILED);
	kill(first.pid, SIGKILL);
	EQ(run_end(&first), -SIGKILL);
	EQ(RUN("--reserve", "800M", "--rows", "1,2", "--wait", "60", "true"),
	   0);
}

static void maps_are_reserved_or_used(void)
{
	const struct gpumap_layers_request request = {
		.size = sizeof(request),
		.name = "model",
		.spec = "1:2;2:1",
		.n_layers = 3,
		.layer_bytes = (const uint64_t[]){ 1 << 20, 2 << 20, 4 << 20 },
		.other_bytes = 8 << 20,
	};
	struct gpumap_plan_request commit = { .size = sizeof(commit),
					      .name = "kept",
					      .flags = GPUMAP_PLAN_COMMIT,
					      .setting = GPUMAP_SETTING_MANUAL,
					      .text = "2:2" };
	struct gpumap_plan plan = { .size = sizeof(plan) };

	EQ(RUN("--map", "model", "true"), FAILED);
	OK(complains("there is no layer map \"model\""));
	EQ(gpumap_layers_publish(map, &request), 0);
	EQ(RUN("--map", "model", "--print-env", "--json", "true"), 0);
	OK(prints("\"rows\":[{\"row\":1,\"bytes\":11534336},"
		  "{\"row\":2,\"bytes\":4194304}]"));
	EQ(RUN("--map", "model", "--name", "own", "--", "sh", "-c",
	       "echo $GPUMAP_MAP $GPUMAP_ROWS"),
	   0);
	STR(out, "own 1,2\n");
	EQ(gpumap_plan_make(map, &commit, &plan, NULL, 0, NULL, 0), 0);
	EQ(RUN("--map", "kept", "--name", "own", "--", "sh", "-c",
	       "echo $GPUMAP_MAP $GPUMAP_ROWS"),
	   0);
	STR(out, "kept 2\n");
	if (ctl_as_another(2)) {
		EQ(CTL("run", "--cache-dir", "/tmp", "--map", "kept", "true"),
		   FAILED);
		OK(complains("is reserved by root already"));
		user = 0;
	}
	EQ(gpumap_layers_release(map, "kept"), 0);
	EQ(gpumap_layers_release(map, "model"), 0);
}

/* A name that is in use is refused: its map, and what another command holds by
 * it, stay. */
static void names_are_used_once(void)
{
	const struct gpumap_layers_request plain = { .size = sizeof(plain),
						     .name = "plain",
						     .spec = "1:2" };
	struct gpumap_layers head = { .size = sizeof(head) };
	struct gpumap_holder holder;
	struct run_job first;
	char want[64];

	EQ(gpumap_layers_publish(map, &plain), 0);
	EQ(RUN("--reserve", "1M", "--rows", "2", "--name", "plain", "true"),
	   FAILED);
	OK(complains("there is a map of this name: choose another name"));
	EQ(gpumap_layers_read(map, "plain", &head, NULL, NULL, 0, NULL, 0), 0);
	EQ(head.n_layers, 2);
	EQ(gpumap_layers_release(map, "plain"), 0);
	RUN_START(&first, "--cache-dir", cache, "--rows", "2", "--reserve",
		  "300M", "--name", "mine", "--", "sh", "-c",
		  "echo up; exec sleep 600");
	OK(run_printed(&first, first.out, "up"));
	EQ(RUN("--reserve", "1M", "--name", "mine", "--wait", "60", "true"),
	   FAILED);
	snprintf(want, sizeof(want), "process %d holds a map of this name",
		 first.pid);
	OK(complains(want));
	OK(run_holder(map, "mine", &holder));
	EQ(holder.pid, first.pid);
	kill(first.pid, SIGKILL);
	EQ(run_end(&first), -SIGKILL);
	EQ(RUN("--reserve", "1M", "--name", "mine", "--wait", "60", "true"), 0);
}

/* ---- other callers ------------------------------------------------------- */

static void any_user_may(void)
{
	if (!ctl_as_another(2))
		return;
	EQ(CTL("run", "--cache-dir", "/tmp", "--reserve", "1M", "--rows", "1",
	       "--wait", "9", "--gate", "--", "sh", "-c", "id -u"),
	   0);
	STR(out, "65534\n");
	user = 0;
}

static void without_an_agent(void)
{
	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(RUN("--reserve", "1M", "true"), NO_AGENT);
	OK(complains("is gpumapd running?"));
	EQ(RUN("--reserve", "1M", "--no-agent", "fail", "true"), NO_AGENT);
	EQ(RUN("--reserve", "1M", "--no-agent", "run", "--", "sh", "-c",
	       "echo $GPUMAP_MAP.$TRITON_CACHE_DIR; exit 5"),
	   5);
	OK(out[0] == '.' && out[1] == '/' &&
	   strstr(err, "no agent: sh runs without a reservation") != NULL);
	EQ(run((const char *const[]){ ctl_program(), "--instance", "none",
				      "run", "--cache-dir", cache, "--reserve",
				      "1M", "--no-agent", "run", "true",
				      NULL }),
	   0);
	EQ(run((const char *const[]){ ctl_program(), "--instance", "none",
				      "run", "--cache-dir", cache, "--reserve",
				      "1M", "true", NULL }),
	   NO_AGENT);
}

TAP_CASE()
{
	char clean[128];

	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, RUN_NODE,
				"[host]\nrows = 1\n[socket]\nmode = 0666\n");
	snprintf(cache, sizeof(cache), "%s/cache", agent.dir);
	run_find_program();
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	it_is_printed_alone();
	wrong_options_are_told();
	options_end_with_the_command();
	commands_are_looked_up_first();
	the_command_is_the_holder();
	its_end_is_passed_on();
	signals_are_the_callers();
	nothing_of_ours_is_left();
	the_environment_is_as_the_page_says();
	caches_are_this_users();
	the_fullest_row_that_suffices_is_taken();
	maps_are_reserved_or_used();
	names_are_used_once();
	any_user_may();
	OK(run_all_gone(map));
	gpumap_detach(map);
	without_an_agent();
	if (tap_failures)
		agent_show_log(&agent);
	snprintf(clean, sizeof(clean), "%s/new/deep", cache);
	rmdir(clean);
	snprintf(clean, sizeof(clean), "%s/new", cache);
	rmdir(clean);
	rmdir(cache);
	agent_remove(&agent);
	return tap_done();
}
