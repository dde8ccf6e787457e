/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * What a probe says becomes rows: in which order and when, what moves, what an
 * Xid does and what not, and that neither the probe's death nor its silence is
 * any row's.
 */

#include <sys/wait.h>

#include "ctl.h"
#include "puppet.h"

#define CONFIG                                                               \
	"[limits]\nsessions = 64\nconnections = 64\n"                        \
	"[socket]\nmode = 0666\n[agent]\nrefresh = 50ms\n[cuda]\nenabled = " \
	"%s\n"                                                               \
	"list-limit = %s\npass-environment = GPUMAP_PUPPET\n"

static void configure(const char *enabled, const char *limit)
{
	char config[256];

	snprintf(config, sizeof(config), CONFIG, enabled, limit);
	agent_configure(&agent, config);
	puppet_for(&agent);
}

static struct gpumap_device card_of(const struct gpumap *map, uint32_t card)
{
	int row = puppet_row(map, card);

	return story_device(map, row >= 0 ? (uint32_t)row : 0);
}

/* Start with these cards.  Returns the probe. */
static int start_with(const uint32_t *cards, size_t n)
{
	int probe;

	agent_spawn(&agent, NULL);
	probe = puppet_accept();
	OK(probe >= 0);
	for (size_t i = 0; i < n; i++) {
		struct gm_probe_wire wire = puppet_card(cards[i]);

		puppet_say(probe, &wire);
		puppet_say_moving(probe, cards[i], GM_PROBE_USABLE, "");
	}
	puppet_say_only(probe, GM_PROBE_LISTED, "");
	if (!OK(agent_wait_log(&agent, "event=ready ")))
		agent_show_log(&agent);
	return probe;
}

static void end(int probe, struct gpumap *map)
{
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	close(probe);
	EQ(agent_run(&agent, "--remove"), 0);
}

/* ---- order ------------------------------------------------------------- */

static void rows_follow_the_bus(void)
{
	struct gm_probe_wire split = puppet_card(2), part = puppet_part(9, 2),
			     other = puppet_part(8, 2);
	struct gpumap_device d;
	struct gpumap *map;
	int probe;

	configure("auto", "30s");
	agent_spawn(&agent, NULL);
	probe = puppet_accept();
	split.device.facts.flags |= GPUMAP_DEVICE_MIG;
	split.device.health = GM_PROBE_SPLIT;
	puppet_say(probe, &part);
	puppet_say(probe, &(struct gm_probe_wire[]){ puppet_card(5) }[0]);
	puppet_say(probe, &split);
	puppet_say(probe, &(struct gm_probe_wire[]){ puppet_card(1) }[0]);
	puppet_say(probe, &other);
	puppet_say_only(probe, GM_PROBE_LISTED, "");
	OK(agent_wait_log(&agent, "event=ready "));
	OK(agent_logged(&agent, "event=cuda_listed devices=5"));
	map = story_attach(&agent);
	EQ(gpumap_device_count(map), 6);
	EQ(puppet_row(map, 1), 0);
	EQ(puppet_row(map, 2), 1);
	EQ(puppet_row(map, 8), 2);
	EQ(puppet_row(map, 9), 3);
	EQ(puppet_row(map, 5), 4);
	d = story_device(map, 0);
	STR(d.name, "Puppet 1");
	EQ(d.kind, GPUMAP_DEVICE_CUDA);
	EQ(d.state, GPUMAP_DEVICE_READY);
	EQ(d.worker_pid, 0);
	EQ(d.numa_node, -1);
	EQ(d.recovery, UINT32_MAX);
	EQ(d.xids, 0);
	d = story_device(map, 1);
	EQ(d.state, GPUMAP_DEVICE_FAILED);
	STR(d.reason, "split: its MIG instances are used");
	OK((d.flags & GPUMAP_DEVICE_MIG) != 0);
	d = story_device(map, 5);
	EQ(d.kind, GPUMAP_DEVICE_HOST);
	EQ(d.recovery, UINT32_MAX);
	end(probe, map);
}

static void what_comes_late_comes_last(void)
{
	struct gm_probe_wire late = puppet_card(2);
	struct gpumap *map;
	int probe;

	configure("auto", "50ms");
	agent_spawn(&agent, NULL);
	OK(agent_wait_log(&agent, "event=cuda_slow devices=0"));
	OK(agent_wait_log(&agent, "event=ready "));
	probe = puppet_accept();
	map = story_attach(&agent);
	EQ(gpumap_device_count(map), 1);
	puppet_say(probe, &late);
	OK(puppet_becomes(map, 2, GPUMAP_DEVICE_READY));
	EQ(puppet_row(map, 2), 1);
	late = puppet_card(1);
	puppet_say(probe, &late);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	EQ(puppet_row(map, 1), 2);
	OK(agent_logged(&agent, "event=row_added row=2 device=\"GPU-c0"));
	gpumap_detach(map);

	/* And keeps its row, although it comes first this time. */
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	close(probe);
	configure("auto", "30s");
	probe = start_with((uint32_t[]){ 1, 3 }, 2);
	map = story_attach(&agent);
	EQ(puppet_row(map, 1), 2);
	EQ(puppet_row(map, 3), 3);
	EQ(card_of(map, 2).state, GPUMAP_DEVICE_LOST);
	end(probe, map);
}

/* Late and of no use: it says so, and until the probe says otherwise. */
static void a_late_card_may_be_of_no_use(void)
{
	struct gm_probe_wire late = puppet_card(1), odd = puppet_card(4);
	struct gpumap *map;
	int probe;

	configure("auto", "30s");
	probe = start_with((uint32_t[]){ 3 }, 1);
	map = story_attach(&agent);
	/* Nobody's name, and a part of itself: no probe of ours says that. */
	memcpy(odd.device.parent, odd.uuid, sizeof(odd.uuid));
	puppet_say(probe, &odd);
	memset(odd.uuid, 0, sizeof(odd.uuid));
	puppet_say(probe, &odd);

	late.device.health = GM_PROBE_FAILED;
	snprintf(late.text, sizeof(late.text), "does not answer");
	puppet_say(probe, &late);
	OK(agent_wait_log(&agent, "event=row_added row=2 "));
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_FAILED));
	/* The probe's next word of another card is heard after all that. */
	puppet_say_moving(probe, 3, GM_PROBE_FAILED, "");
	OK(puppet_becomes(map, 3, GPUMAP_DEVICE_FAILED));
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_FAILED);
	STR(card_of(map, 1).reason, "does not answer");
	EQ(gpumap_device_count(map), 3);
	puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	end(probe, map);
}

/* ---- absence ----------------------------------------------------------- */

static void absence_is_no_fault(void)
{
	struct gpumap *map;
	int probe;

	configure("auto", "30s");
	agent_spawn(&agent, NULL);
	probe = puppet_accept();
	puppet_say_only(probe, GM_PROBE_ABSENT, "no libcuda.so.1");
	close(probe);
	OK(agent_wait_log(&agent, "event=ready "));
	OK(!agent_logged(&agent, "level=error"));
	OK(!agent_logged(&agent, "level=warning"));
	map = story_attach(&agent);
	EQ(gpumap_device_count(map), 1);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(agent_run(&agent, "--remove"), 0);
}

static void a_fault_is_told(void)
{
	struct gm_probe_wire card = puppet_card(1);
	struct gpumap *map;
	int probe;

	agent_spawn(&agent, NULL);
	probe = puppet_accept();
	puppet_say_only(probe, GM_PROBE_BROKEN, "NVML 18: LIB_RM_MISMATCH");
	close(probe);
	OK(agent_wait_log(&agent, "event=ready "));
	OK(agent_logged(&agent, "level=error event=cuda_broken "
				"why=\"NVML 18: LIB_RM_MISMATCH\""));

	/* Somebody has repaired it. */
	probe = puppet_accept();
	puppet_say(probe, &card);
	puppet_say_only(probe, GM_PROBE_LISTED, "");
	map = story_attach(&agent);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	EQ(puppet_row(map, 1), 1);
	end(probe, map);
}

static void what_is_required_is_required(void)
{
	static const struct {
		uint32_t type;
		const char *text;
		int status;
	} words[] = {
		{ GM_PROBE_ABSENT, "no driver", 2 },
		{ GM_PROBE_BROKEN, "NVML 999", 1 },
		{ GM_PROBE_LISTED, "", 2 },
	};
	int probe;

	configure("required", "30s");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		agent_spawn(&agent, NULL);
		probe = puppet_accept();
		puppet_say_only(probe, words[i].type, words[i].text);
		EQ(agent_wait(&agent), words[i].status);
		OK(agent_logged(&agent, "cuda.enabled = required, and there "
					"is no GPU: "));
		OK(agent_logged(&agent, words[i].text));
		close(probe);
	}
	agent.probe = "/nonexistent/gpumap-probe";
	EQ(agent_run(&agent, NULL), 1);
	OK(agent_logged(&agent, "cannot start /nonexistent/gpumap-probe"));
	agent_run(&agent, "--remove");
}

static void a_signal_ends_the_waiting(void)
{
	int probe;

	configure("auto", "3600s");
	agent_spawn(&agent, NULL);
	probe = puppet_accept();
	EQ(agent_kill(&agent, SIGTERM), 0);
	close(probe);
	agent_run(&agent, "--remove");
}

/* ---- what moves -------------------------------------------------------- */

static void what_moves_is_published(const struct gpumap *map, int probe)
{
	struct gm_probe_wire wire = puppet_moving(1, GM_PROBE_USABLE, "");
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_device d;

	wire.moving.known |= GPUMAP_KNOWN_POWER;
	wire.moving.power = 700123;
	wire.moving.free_bytes = UINT64_C(30) << 30;
	wire.moving.recovery = GM_NVML_RECOVERY_DRAIN_P2P;
	puppet_say(probe, &wire);
	do {
		story_nap(500);
		d = card_of(map, 1);
	} while (d.recovery != GPUMAP_RECOVERY_DRAIN_P2P &&
		 story_now() < until);
	EQ(d.recovery, GPUMAP_RECOVERY_DRAIN_P2P);
	EQ(d.power, 700123);
	EQ(d.temperature, 41000);
	OK((d.known & GPUMAP_KNOWN_UTILISATION) == 0);
	OK(d.free_bytes == UINT64_C(30) << 30);
	OK(d.budget_bytes == UINT64_C(30) << 30);
	OK(d.score > 0);
	EQ(d.state, GPUMAP_DEVICE_READY);
	puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
}

static void health_is_a_state(const struct gpumap *map, int probe)
{
	static const struct {
		uint32_t health, state;
		const char *text, *reason;
	} cases[] = {
		{ GM_PROBE_FAILED, GPUMAP_DEVICE_FAILED,
		  "does not answer within 5 s", "does not answer within 5 s" },
		{ GM_PROBE_TAKEN, GPUMAP_DEVICE_FAILED,
		  "compute mode EXCLUSIVE_PROCESS",
		  "compute mode EXCLUSIVE_PROCESS" },
		{ GM_PROBE_LOST, GPUMAP_DEVICE_LOST, "",
		  "it is gone, or has fallen off the bus" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		puppet_say_moving(probe, 1, cases[i].health, cases[i].text);
		OK(puppet_becomes(map, 1, cases[i].state));
		STR(card_of(map, 1).reason, cases[i].reason);
		EQ(card_of(map, 3).state, GPUMAP_DEVICE_READY);
		puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
		OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
		STR(card_of(map, 1).reason, "");
	}
}

static void wait_for_xids(const struct gpumap *map, uint64_t n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (card_of(map, 1).xids < n && story_now() < until)
		story_nap(500);
}

static void xids_of_others_change_nothing(const struct gpumap *map, int probe)
{
	static const uint32_t xids[] = { 13, 31, 43, 45, 68, 109, 94, 154 };
	const size_t n = sizeof(xids) / sizeof(xids[0]);
	uint64_t since = card_of(map, 1).since_ns;

	for (size_t i = 0; i < n; i++)
		puppet_say_xid(probe, 1, xids[i]);
	wait_for_xids(map, n);
	EQ(card_of(map, 1).xids, n);
	EQ(card_of(map, 1).last_xid, 154);
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_READY);
	OK(card_of(map, 1).since_ns == since);
	EQ(card_of(map, 3).xids, 0);
}

/* The probe says that all is well before it notices, and after the reset. */
static void grave_xids_are_believed(const struct gpumap *map, int probe)
{
	static const struct {
		uint32_t xid, state;
	} grave[] = {
		{ 48, GPUMAP_DEVICE_FAILED },
		{ 95, GPUMAP_DEVICE_FAILED },
		{ 79, GPUMAP_DEVICE_LOST },
	};
	struct gm_probe_wire wire = puppet_moving(1, GM_PROBE_USABLE, "");

	for (size_t i = 0; i < sizeof(grave) / sizeof(grave[0]); i++) {
		puppet_say_xid(probe, 1, grave[i].xid);
		OK(puppet_becomes(map, 1, grave[i].state));
		EQ(card_of(map, 1).error, grave[i].xid);
		wire.moving.temperature = 42000;
		wire.moving.recovery = GM_NVML_RECOVERY_NONE;
		puppet_say(probe, &wire);
		while (card_of(map, 1).temperature != 42000)
			story_nap(500);
		EQ(card_of(map, 1).state, grave[i].state);

		wire.moving.temperature = 43000;
		wire.moving.recovery = GM_NVML_RECOVERY_GPU_RESET;
		puppet_say(probe, &wire);
		while (card_of(map, 1).temperature != 43000)
			story_nap(500);
		EQ(card_of(map, 1).state, grave[i].state);

		puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
		OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	}
	EQ(card_of(map, 3).state, GPUMAP_DEVICE_READY);
}

/* Xid 79, then out of the probe's list, then there again: that is the end of the
 * trouble. */
static int a_lost_card_comes_back(const struct gpumap *map, int probe)
{
	struct gm_probe_wire card = puppet_card(3);

	puppet_say_xid(probe, 1, 79);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_LOST));
	close(probe);
	probe = puppet_accept();
	puppet_say(probe, &card);
	puppet_say_only(probe, GM_PROBE_LISTED, "");
	card = puppet_card(1);
	puppet_say(probe, &card);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
	while (card_of(map, 1).temperature != 41000)
		story_nap(500);
	return probe;
}

/* ---- the probe's life -------------------------------------------------- */

static int a_death_is_no_rows(const struct gpumap *map, int probe)
{
	struct gm_probe_wire card = puppet_card(3);
	uint64_t since = card_of(map, 3).since_ns;

	close(probe);
	probe = puppet_accept();
	OK(probe >= 0);
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_READY);
	OK(card_of(map, 3).since_ns == since);

	/* One that is not named again is gone. */
	puppet_say(probe, &card);
	puppet_say_only(probe, GM_PROBE_LISTED, "");
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_LOST));
	STR(card_of(map, 1).reason, "no longer there");
	EQ(card_of(map, 3).state, GPUMAP_DEVICE_READY);
	OK(card_of(map, 3).since_ns == since);
	card = puppet_card(1);
	puppet_say(probe, &card);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	return probe;
}

static int nonsense_ends_it(const struct gpumap *map, int probe)
{
	char record[sizeof(struct gm_probe_wire) + 8] = { 0 };
	struct gm_probe_wire card = puppet_card(1);

	send(probe, record, sizeof(record), MSG_NOSIGNAL);
	OK(agent_wait_log(&agent, "event=probe_killed"));
	close(probe);
	probe = puppet_accept();
	puppet_say(probe, &card);
	card = puppet_card(3);
	puppet_say(probe, &card);
	puppet_say_only(probe, GM_PROBE_LISTED, "");
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_READY);

	/* Types and cards that nobody knows are nobody's. */
	puppet_say_only(probe, 77, "");
	puppet_say_moving(probe, 99, GM_PROBE_LOST, "");
	puppet_say_xid(probe, 99, 79);
	return probe;
}

/* ---- drain ------------------------------------------------------------- */

/* gpumapctl in a process of its own, for it waits. */
static pid_t ask(const char *what, const char *row)
{
	pid_t pid = fork();
	int status;

	if (pid != 0)
		return pid;
	status = CTL(what, row);
	if (status != DONE)
		NOTE("%s", err);
	_exit(status);
}

/* By the library, for another user may have no way to the program. */
static int drain_as(uid_t uid, uint32_t row)
{
	struct gpumap *map;
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (setgid(uid) != 0 || setuid(uid) != 0)
			_exit(1);
		map = story_attach(&agent);
		if (map == NULL || gpumap_device_drain(map, row) != -EPERM)
			_exit(2);
		_exit(strstr(gpumap_refusal(map), "only root and uid 0") ? 0
									 : 3);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int answer(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What the probe does before it answers matters: a card that is said to be
 * closed before it is, is lost to who resets it. */
static void a_row_is_drained(const struct gpumap *map, int probe)
{
	struct gm_probe_wire wire, closed = puppet_word(GM_PROBE_RELEASED, 1);
	struct gm_probe_wire card = puppet_card(1);
	char row[16];
	pid_t pid;

	snprintf(row, sizeof(row), "%d", puppet_row(map, 1));
	pid = ask("drain", row);
	EQ(puppet_hear(probe, &wire), GM_PROBE_RELEASE);
	OK(memcmp(wire.uuid, card.uuid, 16) == 0);
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_DRAINING);
	puppet_say_xid(probe, 1, 48);
	puppet_say_moving(probe, 1, GM_PROBE_LOST, "");
	EQ(waitpid(pid, NULL, WNOHANG), 0);
	puppet_say(probe, &closed);
	EQ(answer(pid), DONE);
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_DRAINING);
	EQ(card_of(map, 3).state, GPUMAP_DEVICE_READY);
	EQ(CTL("drain", row), DONE);

	pid = ask("undrain", row);
	EQ(puppet_hear(probe, &wire), GM_PROBE_RESUME);
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_PROBING);
	puppet_say(probe, &card);
	EQ(answer(pid), DONE);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	EQ(CTL("undrain", row), DONE);
	EQ(CTL("drain", "77"), FAILED);
	if (geteuid() == 0) {
		EQ(drain_as(65534, (uint32_t)puppet_row(map, 1)), 0);
	}
	EQ(CTL("drain", "x"), USAGE);
}

/* The next one must leave the card alone before it has looked at any. */
static int a_drain_outlives_the_probe(const struct gpumap *map, int probe)
{
	struct gm_probe_wire wire, other = puppet_card(3);
	struct gm_probe_wire card = puppet_card(1);
	char row[16];
	pid_t pid;

	snprintf(row, sizeof(row), "%d", puppet_row(map, 1));
	pid = ask("drain", row);
	EQ(puppet_hear(probe, &wire), GM_PROBE_RELEASE);
	shutdown(probe, SHUT_RDWR); /* which closes every card */
	close(probe);
	EQ(answer(pid), DONE);
	probe = puppet_accept();
	EQ(puppet_hear(probe, &wire), GM_PROBE_RELEASE);
	OK(memcmp(wire.uuid, card.uuid, 16) == 0);
	puppet_say(probe, &other);
	puppet_say_only(probe, GM_PROBE_LISTED, "");
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_DRAINING);
	pid = ask("undrain", row);
	EQ(puppet_hear(probe, &wire), GM_PROBE_RESUME);
	card.device.health = GM_PROBE_FAILED;
	strcpy(card.text, "it was put back badly");
	puppet_say(probe, &card);
	EQ(answer(pid), DONE);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_FAILED));
	STR(card_of(map, 1).reason, "it was put back badly");
	puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	return probe;
}

static void host_rows_can_be_drained(const struct gpumap *map)
{
	uint32_t host = gpumap_device_count(map) - 1;
	char row[16];

	snprintf(row, sizeof(row), "%u", host);
	EQ(story_device(map, host).kind, GPUMAP_DEVICE_HOST);
	EQ(CTL("drain", row), DONE);
	EQ(story_device(map, host).state, GPUMAP_DEVICE_DRAINING);
	EQ(story_device(map, host).worker_pid, 0);
	EQ(CTL("undrain", row), DONE);
	while (story_device(map, host).state != GPUMAP_DEVICE_READY)
		story_nap(1000);
	OK(story_device(map, host).worker_pid != 0);
}

static void gpumapctl_shows_gpus(void)
{
	const json_t *devices, *d;
	json_t *json;

	EQ(CTL("devices"), DONE);
	OK(prints("  0  cuda  READY "));
	EQ(CTL("devices", "--json"), DONE);
	json = object();
	devices = list(json, "devices", 3);
	d = json_array_get(devices, 0);
	STR(text(d, "kind"), "cuda");
	STR(text(d, "pci"), "0000:01:00.0");
	STR(text(d, "compute_capability"), "9.0");
	STR(text(d, "recovery"), "none");
	EQ(number(d, "nvml_index"), 1);
	OK(number(d, "xids") > 0);
	EQ(number(d, "temperature"), 41000);
	OK(json_is_null(json_object_get(d, "utilisation")));
	OK(json_is_null(json_object_get(d, "ordinal_pci")));
	OK(json_is_false(json_object_get(d, "split")));
	OK(json_object_get(json_array_get(devices, 2), "pci") == NULL);
	json_decref(json);
}

/* ---- maps -------------------------------------------------------------- */

static void a_map_waits_for_its_row(void)
{
	struct gm_probe_wire card = puppet_card(4);
	struct gpumap *map;
	int probe;

	configure("auto", "30s");
	probe = start_with((uint32_t[]){ 4 }, 1);
	if (!EQ(CTL("publish", "m", "--spec", "0:2", "--layers", "2"), DONE))
		NOTE("%s%s", out, err);
	EQ(agent_kill(&agent, SIGTERM), 0);
	close(probe);
	EQ(agent_run(&agent, "--remove"), 0);

	probe = start_with(NULL, 0);
	OK(agent_logged(&agent, "event=state_waits"));
	EQ(CTL("layers", "m"), FAILED);
	map = story_attach(&agent);
	puppet_say(probe, &card);
	OK(puppet_becomes(map, 4, GPUMAP_DEVICE_READY));
	OK(agent_wait_log(&agent, "event=restored kind=layers name=m "));
	EQ(CTL("layers", "m"), DONE);
	EQ(puppet_row(map, 4), 1);
	EQ(CTL("release", "m"), DONE);
	end(probe, map);
}

int main(void)
{
	struct gpumap *map;
	int probe;

	gpumapctl = getenv("GPUMAPCTL");
	if (gpumapctl == NULL || !puppet_set())
		return 99;
	agent_make(&agent, NULL);
	rows_follow_the_bus();
	what_comes_late_comes_last();
	a_late_card_may_be_of_no_use();
	absence_is_no_fault();
	a_fault_is_told();
	what_is_required_is_required();
	a_signal_ends_the_waiting();

	configure("auto", "30s");
	probe = start_with((uint32_t[]){ 3, 1 }, 2);
	map = story_attach(&agent);
	what_moves_is_published(map, probe);
	health_is_a_state(map, probe);
	xids_of_others_change_nothing(map, probe);
	grave_xids_are_believed(map, probe);
	probe = a_lost_card_comes_back(map, probe);
	gpumapctl_shows_gpus();
	a_row_is_drained(map, probe);
	probe = a_drain_outlives_the_probe(map, probe);
	host_rows_can_be_drained(map);
	probe = a_death_is_no_rows(map, probe);
	probe = nonsense_ends_it(map, probe);
	end(probe, map);

	a_map_waits_for_its_row();
	agent_remove(&agent);
	return tap_done();
}
