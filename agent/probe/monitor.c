/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/monitor.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"

#define POLLED (1 + 2 * GM_MONITOR_CHILDREN)

/* Everything that a child has said, then whether it has ended. */
static void look_at(struct gm_monitor *s, struct gm_probe_child *child,
		    bool ended)
{
	struct gm_probe_child was;
	struct gm_note note;
	char how[32];

	while (gm_role_read(child, &note) > 0)
		gm_monitor_on_message(s, child, &note);
	if (!ended)
		return;
	was = *child;
	if (gm_role_reap(child, how))
		gm_monitor_child_ended(s, &was, how);
}

static int wait_ms(const struct gm_monitor *s)
{
	uint64_t now = gm_role_now();
	int ms;

	if (s->next == UINT64_MAX)
		return -1;
	if (s->next <= now)
		return 0;
	/* Rounded up: a wake before the time would only sleep again. */
	ms = (int)((s->next - now) / 1000000u) + 1;
	gm_role_sleep(gm_probe_ms((uint32_t)ms));
	return ms;
}

/* Returns how many are polled; children stand two by two behind gpumapd. */
static nfds_t list_polled(const struct gm_monitor *s, struct pollfd *polled,
			  uint32_t *ret_child)
{
	nfds_t n = 1;

	polled[0] = (struct pollfd){ .fd = GM_PROBE_FD, .events = POLLIN };
	if (s->is_blocked)
		polled[0].events |= POLLOUT;
	for (uint32_t i = 0; i < GM_MONITOR_CHILDREN; i++) {
		const struct gm_probe_child *child = &s->children[i];

		if (!child->role)
			continue;
		ret_child[n / 2] = i;
		/* A negative descriptor is passed over. */
		polled[n++] = (struct pollfd){ .fd = child->socket,
					       .events = POLLIN };
		polled[n++] =
			(struct pollfd){ .fd = child->pidfd, .events = POLLIN };
	}
	return n;
}

static void sleep_and_look(struct gm_monitor *s)
{
	struct pollfd polled[POLLED];
	uint32_t child[POLLED / 2 + 1];
	nfds_t n = list_polled(s, polled, child);

	if (poll(polled, n, wait_ms(s)) <= 0)
		return;
	if (polled[0].revents & POLLOUT)
		s->is_blocked = false;
	for (nfds_t i = 1; i + 1 < n; i += 2)
		if (polled[i].revents || polled[i + 1].revents)
			look_at(s, &s->children[child[i / 2]],
				polled[i + 1].revents != 0);
	if (polled[0].revents & (POLLIN | POLLHUP | POLLERR))
		gm_monitor_listen(s);
}

int gm_monitor_run(const struct gm_probe_options *options)
{
	static struct gm_monitor s;

	s.options = options;
	while (!s.is_over) {
		uint64_t now = gm_role_now();

		gm_monitor_schedule(&s, now);
		gm_monitor_send(&s, now);
		if (!s.is_over)
			sleep_and_look(&s);
	}
	/* They end with us; those that can be told are told now. */
	for (uint32_t i = 0; i < GM_MONITOR_CHILDREN; i++)
		if (s.children[i].role)
			gm_role_kill(&s.children[i]);
	return s.status;
}
