/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl doctor on this machine, with an agent that is well, with one
 * that is not, and with none; what it prints, its exit status, and its bundle.
 * test_doctor.py of contrib/python/tests/tools has the checks of files and
 * rows.
 */

#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "shm/layout.h"
#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/ctl.h"
#include "tests/support/process.h"
#include "tests/support/story.h"

/* The check @id of the JSON that was printed; NULL: there is none. */
static const json_t *check_of(const json_t *json, const char *id)
{
	const json_t *checks = json_object_get(json, "checks"), *c;
	size_t i;

	json_array_foreach(checks, i, c)
	{
		const char *name = json_string_value(json_object_get(c, "id"));

		if (name != NULL && strcmp(name, id) == 0)
			return c;
	}
	return NULL;
}

/* Does the last doctor --json say this of the check? */
static bool says(const char *id, const char *state, const char *of_text,
		 const char *remedy)
{
	json_t *json = json_loads(out, 0, NULL);
	const json_t *c = check_of(json, id);
	const char *given = c != NULL ? text(c, "remedy") : NULL;
	bool is = c != NULL && strcmp(text(c, "state"), state) == 0 &&
		  strstr(text(c, "text"), of_text) != NULL &&
		  (remedy == NULL ? given == NULL
				  : given != NULL && strstr(given, remedy));

	if (!is)
		NOTE("%s: %s, %s, %s", id,
		     c != NULL ? text(c, "state") : "there is none",
		     c != NULL ? text(c, "text") : "", given ? given : "null");
	json_decref(json);
	return is;
}

/* Faults of the machine that the test runs on are not the test's. */
static bool is_exit(int status)
{
	return status == (strstr(out, "\"FAIL\"") != NULL ? FAILED : DONE);
}

/* ---- what it prints ------------------------------------------------------ */

static void each_check_has_its_fields(void)
{
	json_t *json;
	const json_t *checks, *c;
	size_t i;

	OK(is_exit(CTL("doctor", "--json")));
	json = object();
	OK(has_fields(json, "checks"));
	checks = json_object_get(json, "checks");
	OK(json_array_size(checks) >= 40);
	json_array_foreach(checks, i, c)
	{
		const char *id = text(c, "id"), *state = text(c, "state");
		bool is_fault = strcmp(state, "WARN") == 0 ||
				strcmp(state, "FAIL") == 0;

		OK(has_fields(c, "id state text remedy"));
		OK(check_of(json, id) == c); /* once */
		OK(is_fault || strcmp(state, "PASS") == 0 ||
		   strcmp(state, "SKIP") == 0);
		OK(text(c, "text")[0] != '\0');
		OK(is_fault == (text(c, "remedy") != NULL));
	}
	json_decref(json);
	OK(says("agent.map", "PASS", agent.instance, NULL));
	OK(says("agent.state", "PASS", "seen", NULL));
	OK(says("agent.version", "PASS", "one version", NULL));
	OK(says("agent.socket", "PASS", "answers", NULL));
	OK(says("agent.state_dir", "PASS", agent.state_dir, NULL));
	OK(says("rows.state", "PASS", "2 rows", NULL));
}

static void lines_are_for_people(void)
{
	CTL("doctor");
	OK(prints("PASS  agent.map ") && prints(" passed, ") &&
	   prints(" skipped; -q shows warnings and failures only\n"));
	CTL("doctor", "-q");
	OK(strstr(out, "PASS") == NULL && strstr(out, "SKIP") == NULL);
	EQ(CTL("cordon", "1"), DONE);
	CTL("doctor", "--quiet");
	OK(prints("WARN  rows.cordoned ") && prints(": 1\n") &&
	   prints("remedy: gpumapctl uncordon ROW"));
	EQ(CTL("uncordon", "1"), DONE);
	EQ(CTL("doctor", "operand"), USAGE);
	OK(complains("unrecognized arguments: operand"));
}

/* ---- the agent ----------------------------------------------------------- */

static void another_version_is_told(void)
{
	struct gm_header *header;
	uint32_t was;
	int fd;

	fd = open(agent.segment, O_RDWR | O_CLOEXEC);
	header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, MAP_SHARED,
		      fd, 0);
	close(fd);
	if (!OK(header != MAP_FAILED))
		return;
	was = gm_get(&header->agent_version);
	gm_put(&header->agent_version, 90807);
	CTL("doctor", "--json");
	OK(says("agent.version", "WARN", "9.8.7", "upgrade"));
	gm_put(&header->agent_version, was);
	munmap(header, sizeof(*header));
}

static void another_user_is_refused(void)
{
	if (!ctl_as_another(2))
		return;
	if (CTL("doctor", "--version") != DONE) {
		user = 0;
		SKIP(2, "another user cannot run the Python of this build");
		return;
	}
	CTL("doctor", "--json");
	user = 0;
	OK(says("agent.socket", "FAIL", "may not talk", "usermod -aG gpumap"));
	OK(says("agent.map", "PASS", "", NULL));
}

static void a_cluster_is_looked_at(void)
{
	static const struct cluster_nodes nodes = { 3, 1, 1, 1 };
	struct gpumap *map = story_attach(&agent);

	CTL("doctor", "--json");
	OK(says("cluster.gone", "SKIP", "in no cluster", NULL));
	EQ(cluster_nodes_publish(map, &nodes, 0), 0);
	EQ(CTL("doctor", "--json"), FAILED);
	OK(says("cluster.age", "FAIL", "cluster c was never seen as a whole",
		"gpumap-sync"));
	OK(says("cluster.self", "PASS", "n0000", NULL));
	OK(says("cluster.gone", "PASS", "", NULL));
	OK(says("cluster.left_out", "WARN",
		"n0001 (1 row, 1 share), n0002 (2 rows, 0 shares)", "64 rows"));
	OK(says("cluster.version", "PASS", "", NULL));
	gpumap_detach(map);
}

static void a_silent_agent_is_told(void)
{
	OK(process_stop(agent.pid));
	for (int ms = 0; ms < AGENT_LIMIT_MS; ms += 100) {
		EQ(CTL("doctor", "--json"), FAILED);
		if (strstr(out, "has not been seen") != NULL)
			break;
		usleep(100000);
	}
	OK(says("agent.state", "FAIL", "not been seen", "journalctl"));
	OK(says("agent.socket", "SKIP", "no agent", NULL));
	kill(agent.pid, SIGCONT);
}

static void no_agent_is_told(void)
{
	EQ(ctl_of("no-such", WORDS("doctor", "--json")), FAILED);
	OK(says("agent.map", "FAIL", "no-such", "systemctl start gpumapd"));
	OK(says("agent.state", "SKIP", "no map", NULL));
	OK(says("rows.state", "SKIP", "no map", NULL));
	EQ(ctl_of("no-such", WORDS("doctor", "-q")), FAILED);
	OK(prints("FAIL  agent.map "));
}

/* ---- what the kernel refuses --------------------------------------------- */

static void without_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	if (filter == NULL ||
	    seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
			     SCMP_SYS(io_uring_setup), 0) != 0 ||
	    seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS),
			     SCMP_SYS(pidfd_open), 0) != 0 ||
	    seccomp_load(filter) != 0)
		_exit(97);
	seccomp_release(filter);
}

/* Mounts of its own: a /dev/shm with little room is laid over the folder, and
 * the state folder is read-only. */
static void in_mounts(void)
{
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount(agent.state_dir, agent.state_dir, NULL, MS_BIND, NULL) != 0 ||
	    mount(NULL, agent.state_dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY,
		  NULL) != 0)
		_exit(97);
}

static void in_a_small_shm(void)
{
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=8M") != 0)
		_exit(97);
}

static void in_no_shm(void)
{
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("/proc", "/dev/shm", NULL, MS_BIND, NULL) != 0)
		_exit(97);
}

static void in_a_full_state_dir(void)
{
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", agent.state_dir, "tmpfs", 0, "size=1M") != 0)
		_exit(97);
}

/* Run doctor in a child that has prepared itself.  Its output is in the file
 * that the next call of run() would replace. */
static bool doctor_in(void (*prepare)(void))
{
	char path[96];
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prepare();
		status = CTL("doctor", "--json");
		_exit(status == DONE || status == FAILED ? 0 : 98);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return false;
	snprintf(path, sizeof(path), "%s/out", agent.dir);
	ctl_read(path, out, sizeof(out));
	return true;
}

static void refusals_are_told(void)
{
	if (OK(doctor_in(without_calls))) {
		OK(says("kernel.io_uring", "WARN", "Operation not permitted",
			"seccomp"));
		OK(says("kernel.pidfd", "WARN", "not implemented", "seccomp"));
	}
}

static void mounts_are_told(void)
{
	if (geteuid() != 0) {
		SKIP(8, "mounts need root");
		return;
	}
	if (!doctor_in(in_mounts)) {
		SKIP(8, "no mounts here");
		return;
	}
	OK(says("agent.state_dir", "FAIL", "read-only", "--state-dir"));
	OK(says("memory.shm", "PASS", "left", NULL));
	OK(doctor_in(in_a_small_shm));
	OK(says("memory.shm", "WARN", "8.0 MiB left of 8.0 MiB", "--shm-size"));
	OK(doctor_in(in_no_shm));
	OK(says("memory.shm", "FAIL", "no tmpfs", "mount -t tmpfs"));
	OK(doctor_in(in_a_full_state_dir));
	OK(says("agent.state_dir", "FAIL", "left", "free some"));
}

/* ---- the bundle ---------------------------------------------------------- */

/* The kernel's command line may have passwords and addresses. */
static void a_bundle_has_harmless_words_of_the_kernel(const char *path)
{
	char root[96], file[128];
	FILE *cmdline;

	snprintf(root, sizeof(root), "%s/root", agent.dir);
	snprintf(file, sizeof(file), "%s/proc", root);
	OK(mkdir(root, 0700) == 0 && mkdir(file, 0700) == 0);
	snprintf(file, sizeof(file), "%s/proc/cmdline", root);
	cmdline = fopen(file, "we");
	if (!OK(cmdline != NULL))
		return;
	fputs("rd.iscsi.password=hunter2 iommu=pt ip=192.0.2.7:::host-7 "
	      "systemd.setenv=\"A=b iommu=hunter3\" hugepages=64\n",
	      cmdline);
	fclose(cmdline);
	CTL("doctor", "-q", "--root", root, "--bundle", path);
	EQ(run(WORDS("tar", "-xzOf", path, "./proc-cmdline")), 0);
	OK(prints("iommu=pt hugepages=64\n"));
	OK(strstr(out, "hunter") == NULL && strstr(out, "192.0.2.7") == NULL);
}

static void a_bundle_has_no_secrets(void)
{
	char path[96], command[400];
	struct stat st;

	snprintf(path, sizeof(path), "%s/bundle.tar.gz", agent.dir);
	setenv("HF_TOKEN", "hf_secret_of_the_test", 1);
	CTL("doctor", "-q", "--bundle", path);
	unsetenv("HF_TOKEN");
	EQ(stat(path, &st), 0);
	EQ(st.st_mode & 0777, 0600);
	EQ(run(WORDS("tar", "-tzf", path)), 0);
	OK(prints("./doctor.json\n") && prints("./devices.json\n") &&
	   prints("./proc-meminfo\n"));
	EQ(run(WORDS("tar", "-xzOf", path, "./doctor.json")), 0);
	OK(says("agent.map", "PASS", agent.instance, NULL));
	snprintf(command, sizeof(command), "zcat %s | grep -qa hf_secret",
		 path);
	EQ(run(WORDS("sh", "-c", command)), 1);
	CTL("doctor", "-q", "--bundle", "/nowhere/at/all/b.tar.gz");
	OK(strstr(err, "cannot write /nowhere/at/all/b.tar.gz") != NULL);
	a_bundle_has_harmless_words_of_the_kernel(path);
}

TAP_CASE()
{
	if (!ctl_has_tool("doctor")) {
		LACK("python", 1, "built without Python");
		return tap_done();
	}
	if (!ctl_start("[host]\nrows = 2\n"))
		return tap_done();
	each_check_has_its_fields();
	lines_are_for_people();
	another_version_is_told();
	another_user_is_refused();
	refusals_are_told();
	mounts_are_told();
	a_bundle_has_no_secrets();
	a_cluster_is_looked_at();
	a_silent_agent_is_told();
	no_agent_is_told();
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
	return tap_done();
}
