/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * etcd_server - members of an etcd of the test's own, and a way to each that
 * can be slow, silent or gone.
 *
 * Data is in /dev/shm where that has room, and elections are quick.  All end
 * with the test.
 */
#ifndef GM_TEST_SUPPORT_ETCD_SERVER_H
#define GM_TEST_SUPPORT_ETCD_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ETCD_MEMBERS 3

struct etcd_server {
	pid_t pid; /* 0: it does not run */
	uint16_t port, peer_port;
	char name[8];
	char data[80];
	char url[64];
	const char *host;     /* address, see etcd_live_at() */
	const char *cluster;  /* "name=url,name=url" */
	const char *more[12]; /* arguments, to a NULL */
};

/* For LACK(): the thing that stories of etcd need and this machine lacks.
 * NULL: none. */
const char *etcd_lack(void);

/* A port that no process has. */
uint16_t etcd_free_port(void);

/* Names, ports and an empty folder; then etcd_start() starts it, also again. */
void etcd_make(struct etcd_server *server, int number);
void etcd_start(struct etcd_server *server);

/* Before the first start: another address than 127.0.0.1.  The string stays the
 * caller's. */
void etcd_live_at(struct etcd_server *server, const char *address);

/* Members of one etcd: as etcd_make() of each.  @cluster is theirs; @endpoints
 * is for a client. */
struct etcd_members {
	struct etcd_server of[ETCD_MEMBERS];
	char cluster[256];
	char endpoints[256];
};

void etcd_members_make(struct etcd_members *members);

/* Post a body to a path of the gateway.  Returns 0 for success. */
int etcd_tell(const struct etcd_server *server, const char *path,
	      const char *body);

/* Wait until it listens. */
bool etcd_listens(const struct etcd_server *server);

/* Wait until it has a leader, and answers. */
bool etcd_serves(const struct etcd_server *server);
void etcd_kill(struct etcd_server *server);
void etcd_remove(struct etcd_server *server);

/* A way to a port: what the client sends comes @late_ms later. */
struct etcd_way {
	pid_t pid; /* of a process group; 0: there is none */
	uint16_t port;
	uint16_t to;
	char url[40];
	const char *answer; /* of a liar, or NULL */
	/* A request with this text in it waits, see etcd_way_stop(); or
	 * NULL. */
	const char *mark;
	int told[2], go[2]; /* pipes */
	unsigned int n_times;
};

void etcd_way_make(struct etcd_way *way, uint16_t to);
void etcd_way_open(struct etcd_way *way, uint32_t late_ms);

/* Answer each request so, with the last ten bytes repeated. */
void etcd_liar_open(struct etcd_way *way, const char *answer,
		    unsigned int n_times);

/*
 * Open it, and stop each request that has a text in it.  etcd_way_stopped()
 * waits for one; then one etcd_way_go() passes it on, and another one its
 * answer.  etcd_way_drop() ends the connection instead.
 */
void etcd_way_stop(struct etcd_way *way, const char *mark);
bool etcd_way_stopped(const struct etcd_way *way);
void etcd_way_go(const struct etcd_way *way);
void etcd_way_drop(const struct etcd_way *way);

/* End it with all its connections. */
void etcd_way_close(struct etcd_way *way);

/* Let it be silent, or go on. */
void etcd_way_signal(const struct etcd_way *way, int signal);

#endif
