/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The rights that contrib/etcd/etcd-node gives to nodes: a node's store works
 * with them, and writes nothing of other nodes.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/nodes/etcd_server.h"
#include "tests/support/nodes/store_rig.h"
#include "tests/support/tap.h"

#define ROOT "/gpumap/v1/lab/"

static struct etcd_server server;
static char passwords[2][64];

/* Run etcd-node, as root's user once etcd asks for one, with its output to
 * @end.  Returns the status of the shell. */
static int run_script(const char *as, const char *cluster, const char *node,
		      const char *end)
{
	const char *top = getenv("abs_top_srcdir");
	char command[512];

	snprintf(command, sizeof(command),
		 "ETCDCTL_ENDPOINTS=%s %s %s/contrib/etcd/etcd-node %s %s "
		 "%s/%s.password %s",
		 server.url, as, top != NULL ? top : ".", cluster, node,
		 server.data, node, end);
	return system(command);
}

static int etcd_node(const char *as, const char *cluster, const char *node)
{
	return run_script(as, cluster, node, ">&2");
}

/* Does the script warn of an etcd that asks for no users? */
static bool warns(const char *as)
{
	return run_script(as, "lab", "a",
			  "2>&1 | grep -q 'see etcdctl auth enable'") == 0;
}

/* The password that the script has made for a node. */
static void read_password(const char *node, char *to, size_t bytes)
{
	char path[160];
	struct stat st = { 0 };
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.password", server.data, node);
	file = fopen(path, "re");
	if (!OK(file != NULL && fgets(to, (int)bytes, file) != NULL))
		return;
	EQ(fstat(fileno(file), &st), 0);
	EQ(st.st_mode & 0777, 0600);
	fclose(file);
	to[strcspn(to, "\n")] = '\0';
	EQ(strlen(to), 32);
}

static void lock(void)
{
	EQ(etcd_tell(&server, "/v3/auth/user/add",
		     "{\"name\":\"root\",\"password\":\"r\"}"),
	   0);
	EQ(etcd_tell(&server, "/v3/auth/role/add", "{\"name\":\"root\"}"), 0);
	EQ(etcd_tell(&server, "/v3/auth/user/grant",
		     "{\"user\":\"root\",\"role\":\"root\"}"),
	   0);
	EQ(etcd_tell(&server, "/v3/auth/enable", "{}"), 0);
}

static struct gm_store *open_as(const char *root, const char *user,
				const char *password)
{
	const struct gm_store_opts opts = { .endpoints = server.url,
					    .root = root,
					    .user = user,
					    .password = password,
					    .timeout_ms = 30000 };

	return rig_open(&opts);
}

static void refused(struct gm_store *store, const char *key)
{
	struct rig_result result = { 0 };

	if (!EQ(rig_put(store, key, "x", NULL, &result), -EACCES))
		NOTE("%s: %s", key, result.why);
	OK(strstr(result.why, "permission denied") != NULL);
	EQ(rig_put(store, key, NULL, NULL, NULL), -EACCES);
	EQ(rig_cas(store, key, "x", 0, NULL), -EACCES);
}

static void a_node_writes_its_own(void)
{
	static const char *const own[] = {
		"nodes/a",
		"gangs/a/0123456789abcdef",
		"holds/a/0123456789abcdef",
		"cohorts/u1000/c/state",
	};
	struct gm_store *a = open_as(ROOT, "gpumap/lab/a", passwords[0]);
	struct gm_store *b = open_as(ROOT, "gpumap/lab/b", passwords[1]);
	struct rig_lease lease;
	struct rig_result result;
	struct rig_watch watch;

	rig_watch(b, &watch, "");
	OK(rig_resyncs(b, &watch, 1));
	OK(rig_lease(a, &lease, 5000));
	for (int i = 0; i < 4; i++) {
		EQ(rig_put(a, own[i], "1", &lease.lease, &result), 0);
		OK(rig_sees(b, &watch, own[i], "1"));
		EQ(rig_cas(a, own[i], "2", result.revision, &result), 0);
		EQ(rig_put(a, own[i], NULL, NULL, NULL), 0);
		OK(rig_sees(b, &watch, own[i], ""));
		EQ(rig_put(a, own[i], "3", &lease.lease, NULL), 0);
		OK(rig_sees(b, &watch, own[i], "3"));
	}
	EQ(rig_count(a, ""), 4);
	/* With the lease that a gives back its keys end. */
	gm_store_close(a);
	for (int i = 0; i < 4; i++)
		OK(rig_sees(b, &watch, own[i], ""));
	gm_store_close(b);
	rig_watch_end(&watch);
}

static void a_node_writes_nothing_else(void)
{
	struct gm_store *a = open_as(ROOT, "gpumap/lab/a", passwords[0]);

	refused(a, "nodes/b");
	refused(a, "nodes/ab");
	refused(a, "nodes/a/b");
	refused(a, "gangs/b/0123456789abcdef");
	refused(a, "gangs/ab/0123456789abcdef");
	refused(a, "holds/b/0123456789abcdef");
	refused(a, "other");
	gm_store_close(a);
}

static void another_cluster_is_closed(void)
{
	struct gm_store *a =
		open_as("/gpumap/v1/lab2/", "gpumap/lab/a", passwords[0]);

	EQ(rig_count(a, ""), -EACCES);
	refused(a, "nodes/a");
	gm_store_close(a);
}

/* A second run sets the password, and the rights are as before. */
static void the_script_may_run_again(void)
{
	char path[160];
	struct gm_store *a;
	FILE *file;

	snprintf(path, sizeof(path), "%s/a.password", server.data);
	file = fopen(path, "we");
	fputs("another\n", file);
	fclose(file);
	EQ(etcd_node("ETCDCTL_USER=root:r", "lab", "a"), 0);
	a = open_as(ROOT, "gpumap/lab/a", "another");
	EQ(rig_put(a, "nodes/a", "1", NULL, NULL), 0);
	refused(a, "nodes/b");
	gm_store_close(a);
}

static void names_are_checked(void)
{
	const char *top = getenv("abs_top_srcdir");
	static const char *const wrong[] = { "a/b x", "x .a", "-a x", "'a b' x",
					     "'' x",  "x ''", "x",    "x y z" };
	char command[256];

	for (int i = 0; i < 8; i++) {
		snprintf(command, sizeof(command),
			 "%s/contrib/etcd/etcd-node %s /nonexistent/file "
			 ">/dev/null 2>&1",
			 top != NULL ? top : ".", wrong[i]);
		OK(system(command) != 0);
	}
}

TAP_CASE()
{
	const char *lack = etcd_lack();

	names_are_checked();
	if (lack == NULL && system("etcdctl version >/dev/null 2>&1") != 0)
		lack = "no etcdctl is installed";
	if (lack != NULL) {
		LACK("etcd", 1, lack);
		return tap_done();
	}
	etcd_make(&server, 0);
	etcd_start(&server);
	OK(etcd_serves(&server));
	EQ(etcd_node("", "lab", "a"), 0);
	EQ(etcd_node("", "lab", "b"), 0);
	OK(warns(""));
	read_password("a", passwords[0], sizeof(passwords[0]));
	read_password("b", passwords[1], sizeof(passwords[1]));
	lock();
	OK(!warns("ETCDCTL_USER=root:r"));
	OK(run_script("", "lab", "a", "2>&1 | grep -q ETCDCTL_USER") == 0);
	a_node_writes_its_own();
	a_node_writes_nothing_else();
	another_cluster_is_closed();
	the_script_may_run_again();
	etcd_remove(&server);
	return tap_done();
}
