/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap-sync.conf: what it says, its defaults, and what is wrong with it.
 */

#include "agent/sync/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/tap.h"

#define NS_PER_S UINT64_C(1000000000)

/* Reading a right configuration that names etcd returns this. */
#ifdef GM_HAVE_ETCD
#define WITH_ETCD 0
#else
#define WITH_ETCD -EOPNOTSUPP
#endif

static char path[64];
static struct gm_sync_config config;
static char why[GM_INI_WHY_BYTES];

static void write_file(const char *name, const char *text, mode_t mode)
{
	FILE *file = fopen(name, "we");

	if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0 ||
	    chmod(name, mode) != 0) {
		printf("Bail out! %s: %s\n", name, strerror(errno));
		exit(99);
	}
}

static int n_files; /* read by the last read_text(), or its error */

/* Read a file of this text; free the configuration afterwards. */
static int read_text(const char *text)
{
	write_file(path, text, 0644);
	n_files = gm_sync_config_read(&config, path, true, why);
	return n_files < 0 ? n_files : 0;
}

static void defaults_are_said_by_the_page(void)
{
	EQ(read_text("[cluster]\nnode = a\n[store]\ndirectory = /srv/x\n"), 0);
	STR(config.cluster, "gpumap");
	STR(config.node, "a");
	OK(config.gangs);
	EQ(config.ttl_ns, 5 * NS_PER_S);
	EQ(config.forget_ns, 3600 * NS_PER_S);
	EQ(config.timeout_ns, 5 * NS_PER_S);
	STR(config.directory, "/srv/x");
	STR(config.etcd, NULL);
	STR(config.password, NULL);
	STR(config.socket_path, "/run/gpumap-sync/node");
	EQ(config.socket_mode, 0660);
	STR(config.instance, "node");
	STR(config.runtime_dir, "/run/gpumap");
	OK(config.address != NULL);
	gm_sync_config_free(&config);
}

static void every_key_is_read(void)
{
	char text[1024], password[96];

	snprintf(password, sizeof(password), "%s.password", path);
	write_file(password, "s3cret word\nnot this\n", 0640);
	snprintf(text, sizeof(text),
		 "; comment\n[cluster]\nname = lab\nnode = n1\n"
		 "address = 10.0.0.1\ngangs = no\nttl = 1500ms\n"
		 "forget = 10s\n[store]\netcd = http://h:1,http://i:2\n"
		 "ca = /ca\ncert = /cert\nkey = /key\nuser = u\n"
		 "password-file = %s\ntimeout = 20ms\n"
		 "[socket]\npath = /tmp/s\nmode = 0600\ngroup = 7\n"
		 "[agent]\ninstance = i\nruntime-dir = /r\n",
		 password);
	EQ(read_text(text), WITH_ETCD);
	STR(config.cluster, "lab");
	STR(config.node, "n1");
	STR(config.address, "10.0.0.1");
	OK(!config.gangs);
	EQ(config.ttl_ns, 1500 * (NS_PER_S / 1000));
	EQ(config.forget_ns, 10 * NS_PER_S);
	STR(config.etcd, "http://h:1,http://i:2");
	STR(config.ca, "/ca");
	STR(config.cert, "/cert");
	STR(config.key, "/key");
	STR(config.user, "u");
	STR(config.password, "s3cret word");
	EQ(config.timeout_ns, 20 * (NS_PER_S / 1000));
	STR(config.socket_path, "/tmp/s");
	EQ(config.socket_mode, 0600);
	EQ(config.socket_gid, 7);
	STR(config.instance, "i");
	STR(config.runtime_dir, "/r");
	gm_sync_config_free(&config);
	unlink(password);
}

static void a_drop_in_goes_before_the_file(void)
{
	char dir[80], name[96];

	snprintf(dir, sizeof(dir), "%s.d", path);
	snprintf(name, sizeof(name), "%s/node.conf", dir);
	EQ(mkdir(dir, 0700), 0);
	write_file(name, "[cluster]\nnode = b\n", 0644);
	EQ(read_text("[cluster]\nnode = a\n[store]\ndirectory = /x\n"), 0);
	EQ(n_files, 2);
	STR(config.node, "b");
	gm_sync_config_free(&config);
	unlink(name);
	rmdir(dir);
}

/* A text, and what is said of it after the file's name. */
static const struct {
	const char *text, *says;
} wrong[] = {
	{ "node = a\n", ":1: node stands before the first section" },
	{ "[cluster]\nnode a\n", ":2: neither [section] nor key = value" },
	{ "[clusters]\n", ":1: no section [clusters]: there are cluster, "
			  "store, socket, agent" },
	{ "[cluster\n", ":1: a section is one word in brackets: [store]" },
	{ "[cluster]\nnodes = a\n", ":2: [cluster] has no key nodes: it has "
				    "address, forget, gangs, name, node, ttl" },
	{ "[cluster]\nnode = ../a\n", ":2: node = ../a: 1 to 63 letters, " },
	{ "[cluster]\nname = -x\n", ":2: name = -x: 1 to 63 letters, " },
	{ "[cluster]\naddress = a b\n", ":2: address = a b: an IP address" },
	{ "[cluster]\ngangs = maybe\n", ":2: gangs = maybe: yes or no" },
	{ "[cluster]\nttl = 999ms\n",
	  ":2: ttl = 999ms: a time from 1000ms to 600s" },
	{ "[cluster]\nttl = 5\n", ":2: ttl = 5: a time from" },
	{ "[store]\ndirectory = x\n", ":2: directory = x: an absolute path" },
	{ "[socket]\nmode = 9\n", ":2: mode = 9: an octal mode" },
	{ "[socket]\ngroup = no-such-group\n",
	  ":2: group = no-such-group: a group of this machine" },
	{ "[cluster]\nnode = a\n", ": no place where the nodes meet: add "
				   "directory = DIR" },
	{ "[cluster]\nnode = a\n[store]\ndirectory = /x\netcd = y\n",
	  ": directory and etcd in [store]: leave one of them out" },
	{ "[cluster]\nnode = a\n[store]\netcd = y\nuser = u\n",
	  ": user and password-file of [store] go together" },
	{ "[cluster]\nnode = a\n[store]\netcd = y\nkey = /k\n",
	  ": cert and key of [store] go together" },
};

static void errors_name_line_and_remedy(void)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		size_t n = strlen(path);

		EQ(read_text(wrong[i].text), -EINVAL);
		OK(strncmp(why, path, n) == 0);
		if (!OK(strncmp(why + n, wrong[i].says,
				strlen(wrong[i].says)) == 0))
			NOTE("%s", why);
		gm_sync_config_free(&config);
	}
}

static void the_store_is_checked(void)
{
	EQ(read_text("[cluster]\nnode = a\n[store]\netcd = http://h:1\n"),
	   WITH_ETCD);
	OK(WITH_ETCD == 0 || strstr(why, "give a directory") != NULL);
	gm_sync_config_free(&config);
	OK(read_text("[cluster]\nnode = a\n[store]\netcd = y\n") < 0);
	OK(WITH_ETCD != 0 ||
	   strstr(why, ": [store]: y is no endpoint") != NULL);
	gm_sync_config_free(&config);
	/* Nothing is asked of a directory: it may come later. */
	EQ(read_text("[cluster]\nnode = a\n[store]\ndirectory = /not/x\n"), 0);
	gm_sync_config_free(&config);
}

static void a_password_is_kept_secret(void)
{
	char password[96], text[256], longest[1100];

	snprintf(password, sizeof(password), "%s.password", path);
	snprintf(text, sizeof(text),
		 "[cluster]\nnode = a\n[store]\netcd = y\nuser = u\n"
		 "password-file = %s\n",
		 password);
	write_file(password, "open\n", 0644);
	EQ(read_text(text), -EINVAL);
	OK(strstr(why, "others may read or write it: chmod 0640") != NULL);
	gm_sync_config_free(&config);
	write_file(password, "open\n", 0660);
	EQ(read_text(text), -EINVAL);
	gm_sync_config_free(&config);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	write_file(password, longest, 0600);
	EQ(read_text(text), -EINVAL);
	OK(strstr(why, "no file of one line") != NULL);
	gm_sync_config_free(&config);
	write_file(password, "\nopen\n", 0600);
	EQ(read_text(text), -EINVAL);
	OK(strstr(why, "its first line is empty") != NULL);
	gm_sync_config_free(&config);
	unlink(password);
	EQ(read_text(text), -EINVAL);
	OK(strstr(why, "No such file") != NULL);
	gm_sync_config_free(&config);
}

static void a_missing_file_is_an_error_where_it_was_named(void)
{
	unlink(path);
	EQ(gm_sync_config_read(&config, path, true, why), -ENOENT);
	gm_sync_config_free(&config);
	/* Without a file there is no store. */
	EQ(gm_sync_config_read(&config, path, false, why), -EINVAL);
	OK(strstr(why, "no place where the nodes meet") != NULL ||
	   strstr(why, "add node = NAME") != NULL);
	gm_sync_config_free(&config);
}

TAP_CASE()
{
	snprintf(path, sizeof(path), "/tmp/gpumap-test.%d.sync.conf",
		 (int)getpid());
	defaults_are_said_by_the_page();
	every_key_is_read();
	a_drop_in_goes_before_the_file();
	errors_name_line_and_remedy();
	the_store_is_checked();
	a_password_is_kept_secret();
	a_missing_file_is_an_error_where_it_was_named();
	return tap_done();
}
