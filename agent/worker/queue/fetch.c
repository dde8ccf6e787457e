/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/queue/fetch.h"

#include <errno.h>

#include "agent/worker/queue/dependency.h"
#include "agent/worker/queue/heartbeat.h"
#include "gpumap.h"

/* Consume the second slot of the previous entry. */
static int take_second(struct gm_worker_session *s, const uint64_t *words,
		       struct gm_decoded_entry *v)
{
	*v = (struct gm_decoded_entry){ 0 };
	s->second = false;
	if ((words[0] >> 32 & 0xff) == GM_OP_MORE)
		return 0;
	v->why = "a second slot was taken back";
	return -EPROTO;
}

/* Has the client cancelled the entry at the head?  @word: the first of its
 * slot. */
static bool is_cancelled(const struct gm_worker_session *s, uint64_t word)
{
	return gm_entry_is_cancelled(word) ||
	       (s->cancels && gm_cancel_reaches(s->cancel, s->entries.pos,
						s->entries.mask + 1));
}

/* Decide whether a valid entry may begin. */
static int may_begin(struct gm_worker_session *s, uint64_t word,
		     const struct gm_decoded_entry *v)
{
	/* FREE is not cancelled: the library submits it, and it is no job. */
	if (v->task.op != GPUMAP_OP_FREE && is_cancelled(s, word))
		return -ECANCELED;
	if (v->deadline_ns && gm_now_ns() >= v->deadline_ns)
		return -ETIME;
	return v->n_waits ? gm_dependency_begin(s, v) : 0;
}

int gm_fetch_entry(struct gm_worker_session *session,
		   const uint64_t words[GM_ENTRY_WORDS],
		   struct gm_decoded_entry *ret_verdict)
{
	struct gm_worker_session *s = session;
	uint64_t more[GM_ENTRY_WORDS];
	bool has_more = gm_entry_has_more(words[0]);
	bool is_there;
	int rc;

	if (s->second)
		return take_second(s, words, ret_verdict);
	is_there =
		has_more && gm_ring_peek(&s->entries, GM_ENTRY_WORDS, 1, more);
	rc = gm_decode_entry(&s->decoder, words, is_there ? more : NULL,
			     ret_verdict);
	if (rc == -EPROTO)
		return rc;
	if (rc == 0)
		rc = may_begin(s, words[0], ret_verdict);
	s->second = has_more && rc != -EAGAIN;
	return rc;
}
