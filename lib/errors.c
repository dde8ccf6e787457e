/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>

#define UNSUPPORTED                                                            \
	"the device cannot do this, or the session was not opened for it, or " \
	"an engine cannot follow the map, or the agent does not know the "     \
	"request and is older than this library"

/* The meaning of each error here, which is seldom strerror()'s. */
static const struct {
	int error;
	const char *text;
} sentences[] = {
	{ 0, "success" },
	{ -E2BIG, "the caller asks for more than this library knows: "
		  "install a newer libgpumap; or has not set a struct's size" },
	{ -EACCES,
	  "this user may not read the map or its masks or talk to the agent, "
	  "see the mode and the group of its socket; or a READ_ONLY buffer "
	  "would be written; or it is not shared with this user" },
	{ -EAGAIN, "published anew meanwhile, or no credit left; "
		   "refresh or take completions, and try again" },
	{ -EALREADY, "this session holds, or has claimed, the share already" },
	{ -EBADF, "the descriptor is none, or cannot be read" },
	{ -EBUSY,
	  "a row that is being brought back, or was drained with its "
	  "card; a buffer that is shared or exported already; or a rank "
	  "that another process is" },
	{ -ECANCELED,
	  "it was taken back before it was begun, or undone meanwhile" },
	{ -ECONNREFUSED, "no agent answers; is gpumapd running?" },
	{ -ECONNRESET,
	  "the agent has gone, or has ended this session: gpumap_wait_ready() "
	  "waits for the next agent, where another can be opened" },
	{ -EDQUOT, "this user's or this session's quota is used up" },
	{ -EEXIST, "there is such a thing already" },
	{ -EFAULT, "memory of one rank is out of another's reach" },
	{ -EFBIG, "larger than any may be here, see bytes-per-uid in [masks], "
		  "or image-limit in [programs], of gpumapd.conf" },
	{ -EINPROGRESS, "a call of NCCL's is not over yet" },
	{ -EINVAL, "an argument was refused" },
	{ -EIO, "the worker of the row died before the job ended; or NCCL "
		"refused a collective, and the log says why; or the agent's "
		"disk failed" },
	{ -EKEYREJECTED, "what has this name has another fingerprint" },
	{ -EMFILE, "this process has no descriptor left" },
	{ -EMSGSIZE, "the request is larger than this kernel lets through a "
		     "socket; raise net.core.wmem_max" },
	{ -ENFILE, "this machine has no descriptor left" },
	{ -ENOBUFS, "the caller's array is too small" },
	{ -ENODATA, "nothing is in flight to wait for; of a load: the file "
		    "ends before what was to be read; of a rank: it is not "
		    "in the group" },
	{ -ENODEV, "no such row, or its device is gone" },
	{ -ENOENT, "there is nothing of this name" },
	{ -ENOEXEC, "no program that can be loaded, or one of another version, "
		    "or of another card" },
	{ -ENOMEM, "out of memory: no room of this size in the arena, or on "
		   "the device" },
	{ -ENOSPC, "no room: the model does not fit, or the segment, its table "
		   "of holders or the agent's disk is full" },
	{ -ENOTSUP, UNSUPPORTED }, /* on Linux the same number */
	{ -EOPNOTSUPP, UNSUPPORTED },
	{ -EOVERFLOW, "sizes of 2^64 bytes or more" },
	{ -EOWNERDEAD, "opened by the process that forked this one; open "
		       "your own" },
	{ -EPERM, "it belongs to another user or session, or is for "
		  "administrators, or the agent's settings forbid it" },
	{ -EPROTO, "what is there breaks the contract: another layout, a "
		   "damaged segment, or a peer that lies" },
	{ -ERANGE, "out of the table, the arena, the buffer or the world" },
	{ -EREMOTEIO, "of a load: the file's storage, or its file system, "
		      "failed a read" },
	{ -EROFS, "the agent's disk cannot be written" },
	{ -ESHUTDOWN, "the agent is shutting down" },
	{ -ESRCH, "the agent does not see this process: it is in another pid "
		  "namespace" },
	{ -ESTALE, "the agent has not been seen for two seconds, or its map "
		   "was retired; of a job: its buffer or program is gone; of a "
		   "group: it is broken, open it anew" },
	{ -ETIME, "the deadline passed" },
	{ -ETIMEDOUT,
	  "a row was not drained, or its card not seen again, in "
	  "time; a drain goes on, and may be asked for again; of a "
	  "group: not all ranks came; of a request: the agent runs, "
	  "and did not answer in time" },
	{ -EUSERS, "no session is left for this user" },
};

uint32_t gpumap_version(void)
{
	return GPUMAP_VERSION;
}

const char *gpumap_strerror(int error)
{
	for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++)
		if (sentences[i].error == error)
			return sentences[i].text;
	return error > 0 ? "success" : "an error of the kernel; see errno(3)";
}

/* A struct's @size, from its first bytes.  Larger than any struct is one that
 * the caller has not set: it is not followed. */
static int read_size(const void *theirs, size_t *ret_size)
{
	size_t size;

	if (theirs == NULL)
		return -EINVAL;
	memcpy(&size, theirs, sizeof(size));
	if (size > GM_SIZE_MOST)
		return -E2BIG;
	*ret_size = size;
	return size < sizeof(size) ? -EINVAL : 0;
}

int gm_size_in(void *ret_ours, size_t known, const void *theirs)
{
	size_t size;
	int ret = read_size(theirs, &size);

	if (ret != 0)
		return ret;
	for (size_t i = known; i < size; i++)
		if (((const unsigned char *)theirs)[i] != 0)
			return -E2BIG;
	memset(ret_ours, 0, known);
	memcpy(ret_ours, theirs, size < known ? size : known);
	return 0;
}

int gm_size_out(const void *theirs, size_t least)
{
	size_t size;
	int ret = read_size(theirs, &size);

	return ret == 0 && size < least ? -EINVAL : ret;
}

void gm_size_put_item(void *ret_theirs, size_t size, const void *ours,
		      size_t known)
{
	size_t n = size < known ? size : known;

	memcpy(ret_theirs, ours, n);
	memset((char *)ret_theirs + n, 0, size - n);
	memcpy(ret_theirs, &size, sizeof(size));
}

void gm_size_put(void *ret_theirs, const void *ours, size_t known)
{
	size_t size;

	memcpy(&size, ret_theirs, sizeof(size));
	gm_size_put_item(ret_theirs, size, ours, known);
	if (size > known)
		memcpy(ret_theirs, &known, sizeof(known));
}
