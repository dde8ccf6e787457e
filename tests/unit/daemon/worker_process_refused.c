/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_process: a client that waits for a row that may not be used any more,
 * or whose worker does not end, is told so, at each stage of the wait.
 */

#include <errno.h>
#include <sys/wait.h>

#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/worker_child.h"
#include "tests/support/unkillable_child.h"
#include "tests/support/worker_process_rig.h"

/* ---- a request ----------------------------------------------------------- */

static struct gm_worker_request request;
static int request_status; /* 1: not known yet */

static void request_held(struct gm_worker_request *c, uint64_t bytes, int fd)
{
	(void)c;
	(void)bytes;
	(void)fd;
	request_status = 0;
}

static void request_gone(struct gm_worker_request *c, int status,
			 const char *why)
{
	(void)c;
	NOTE("the request is gone: %d %s", status, why);
	request_status = status;
}

static int ask_claim(void)
{
	char why[GM_WHY_BYTES] = "";
	int ret;

	request = (struct gm_worker_request){ .ask = GM_WIRE_REGISTER,
					      .handle = 7,
					      .buffer.bytes = 4096,
					      .fd = 2,
					      .held = request_held,
					      .gone = request_gone };
	request_status = 1;
	ret = gm_attachments_ask(&client.attachment, &request, why);
	if (ret)
		NOTE("%s", why);
	return ret;
}

/* ---- what is waited for -------------------------------------------------- */

static bool is_offered(void)
{
	return client.attachment.state == GM_ATTACHMENT_OFFERED;
}

static bool is_asked(void)
{
	return request.state == GM_WORKER_REQUEST_ASKED;
}

static bool is_barred(void)
{
	return worker->state == GM_PROCESS_BARRED && no_process();
}

static bool is_stuck(void)
{
	return worker->state == GM_PROCESS_STUCK;
}

static bool is_over(void)
{
	return worker->state != GM_PROCESS_STUCK;
}

/* ---- stories ------------------------------------------------------------- */

static void unbar(void)
{
	gm_put_release(&play->is_mute, 0);
	row()->present = true;
	gm_supervisor_unbar(d, 0, GM_BAR_HEALTH | GM_BAR_DRAIN | GM_BAR_LOST);
}

/* A worker was offered the attachment, and has not answered. */
static void offered_attachment_is_refused(bool finish)
{
	gm_put_release(&play->is_mute, 1);
	EQ(attach_client(), 0);
	OK(until(is_offered));
	gm_supervisor_bar(d, 0, finish ? GM_BAR_DRAIN : GM_BAR_HEALTH, finish,
			  "it is hot", NULL);
	if (!OK(until(is_answered))) {
		leave();
		unbar();
		return;
	}
	EQ(client.status, -ENODEV);
	OK(strstr(client.why, "row 0 cannot be used now") != NULL);
	OK(strstr(client.why, "use another row") != NULL);
	OK(client.attachment.worker == NULL);
	OK(until(is_barred));
	EQ(worker->n_free, GM_JOURNAL_PLACES);
	unbar();
}

static void claims_of_a_barred_row_are_refused(void)
{
	EQ(attach_client(), 0);
	OK(until(is_answered));
	EQ(client.status, 0);
	gm_put_release(&play->is_mute, 1);
	EQ(ask_claim(), 0);
	OK(until(is_asked));
	gm_supervisor_bar(d, 0, GM_BAR_HEALTH, false, "it is hot", NULL);
	OK(until(is_barred));
	EQ(request_status, -ESTALE);
	EQ(ask_claim(), -ENODEV);
	EQ(request_status, 1);
	unbar();
	OK(until(is_back));
}

/* One was offered, one waits, and a request of a third was asked. */
static void newcomers_of_a_stuck_worker_are_refused(void)
{
	static struct client other, late;
	pid_t tracer;
	int held;

	OK(until(is_back));
	held = hold(worker->child.pid, &tracer);
	if (held < 0) {
		SKIP(1, "this needs ptrace");
		return;
	}
	gm_put_release(&play->is_mute, 1);
	EQ(ask_claim(), 0);
	OK(until(is_asked));
	EQ(attach_user(&other), 0);
	EQ(other.attachment.state, GM_ATTACHMENT_OFFERED);
	gm_worker_child_kill(worker, "by hand");
	EQ(attach_user(&late), 0);
	EQ(late.attachment.state, GM_ATTACHMENT_WAITING);
	/* As if the five seconds were over. */
	gm_timer_set(d->loop, &worker->timer, gm_loop_now());
	OK(until(is_stuck));
	EQ(other.status, -ENODEV);
	OK(strstr(other.why, "does not end, not even by SIGKILL") != NULL);
	OK(strstr(other.why, "use another row") != NULL);
	EQ(late.status, -ENODEV);
	EQ(request_status, -ENODEV);
	EQ(row()->moving.state, GPUMAP_DEVICE_FAILED);
	EQ(attach_user(&other), -ENODEV);
	EQ(client.attachment.state, GM_ATTACHMENT_TAKEN);

	gm_put_release(&play->is_mute, 0);
	close(held);
	waitpid(tracer, NULL, 0);
	OK(until(is_over));
	OK(until(is_back));
	EQ(attach_user(&other), 0);
	OK(leave());
}

TAP_CASE_ARGS(argc, argv)
{
	play_if_child(argc, argv);
	if (begin()) {
		offered_attachment_is_refused(false);
		offered_attachment_is_refused(true);
		claims_of_a_barred_row_are_refused();
		newcomers_of_a_stuck_worker_are_refused();
		end();
	}
	return tap_done();
}
