/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "agent/common/log.h"

static void send_record(struct gm_sync_client *client,
			struct gm_control *header, const struct iovec parts[3])
{
	struct iovec record[4] = {
		{ header, sizeof(*header) }, parts[0], parts[1], parts[2]
	};
	struct msghdr message = { .msg_iov = record, .msg_iovlen = 4 };

	if (client->is_over)
		return;
	header->magic = GM_CONTROL_MAGIC;
	header->version = GM_CONTROL_VERSION;
	header->body = (uint32_t)(record[1].iov_len + record[2].iov_len);
	header->bytes =
		(uint32_t)(sizeof(*header) + header->body + record[3].iov_len);
	if (sendmsg(client->source.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >=
	    0)
		return;
	client->is_over = true;
	if (errno != EPIPE && errno != ECONNRESET)
		gm_log_of(client->uid, GM_LOG_WARNING, "client_ended",
			  "pid=%d uid=%u why=%s", (int)client->pid,
			  (unsigned)client->uid,
			  gm_quote(errno == EAGAIN
					   ? "it does not read its replies"
					   : strerror(errno))
				  .text);
}

void gm_sync_client_reply(struct gm_sync_client *client,
			  const struct gm_control *request,
			  const struct gm_sync_reply *reply)
{
	struct gm_control header = { .type = request->type,
				     .serial = request->serial,
				     .status = reply->status };
	struct gm_refusal refusal = { 0 };
	const char *why = reply->why;
	const struct iovec parts[3] = {
		{ &refusal, reply->status < 0 ? sizeof(refusal) : 0 },
		{ (void *)reply->body, reply->body_bytes },
		{ (void *)reply->tail, reply->tail_bytes },
	};

	if (reply->status < 0)
		snprintf(refusal.text, sizeof(refusal.text), "%s",
			 why != NULL ? why : strerror(-reply->status));
	send_record(client, &header, parts);
}

void gm_sync_client_refuse(struct gm_sync_client *client,
			   const struct gm_control *request, int status,
			   const char *why)
{
	const struct gm_sync_reply reply = { .status = status, .why = why };

	gm_sync_client_reply(client, request, &reply);
}

void gm_sync_client_tell(struct gm_sync_client *client, int status,
			 const char *why)
{
	const struct gm_control event = { .type = GM_SYNC_EVENT };

	gm_sync_client_refuse(client, &event, status, why);
}
