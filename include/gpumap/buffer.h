/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/buffer.h - give jobs memory outside the arena, files and programs.
 *
 * A buffer is memory outside the arena: a device's own, a file of this process,
 * or a buffer that another session exports.  Its name is a number that is valid
 * in its own session only; jobs carry it with an offset.  A name whose buffer
 * is gone is -ESTALE, a name of another session -EPERM, and one that no session
 * can have -ERANGE: a name never reaches another session's memory by mistake.
 *
 * Jobs compute with memory of their own row.  A COPY may have a source on
 * another one, of any kind but a dummy: submit it to the row of its
 * destination.  The destination row's device reads the source itself where it
 * can: a host row's memory; and a card's memory, if NVML reports that the card
 * reaches it and a test copy, made once for each two cards, was right.  Both
 * only for buffers that were allocated with GPUMAP_BUFFER_EXPORTABLE.  All
 * other copies pass through 8 MiB of memory beside the arenas, for each session
 * and row that copies this way, and occupy the workers of both rows.
 */
#ifndef GPUMAP_BUFFER_H
#define GPUMAP_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/session.h>
#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Properties of a buffer: bits of the flags of the calls below.  EXPORTABLE:
 * other sessions, and other rows of this one, may import it.  READ_ONLY: no job
 * of this session writes it; for registered and imported buffers. */
#define GPUMAP_BUFFER_EXPORTABLE (UINT32_C(1) << 0)
#define GPUMAP_BUFFER_READ_ONLY  (UINT32_C(1) << 1)

/*
 * gpumap_buffer_alloc - allocate memory of a device
 *
 * The allocation waits for the jobs that this session has in flight on the row.
 * The content is zero, or what this session left there.  The first use of a row
 * makes its queue pair, to which the deadline does not apply: see
 * gpumap_alloc().
 *
 * A buffer exists as long as the worker of its row: after the worker's death
 * jobs that name it end with -ESTALE.  Free it then too.
 *
 * row		of any kind but a dummy
 * bytes	at least 1
 * flags	GPUMAP_BUFFER_EXPORTABLE or 0
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 * ret_buffer	receives its name, never 0; give it back with
 *		gpumap_buffer_free()
 *
 * Returns	0
 *		-ENOMEM		the device is full
 *		-EDQUOT		this user's sessions would together have more
 *				bytes there than they may, or this session has
 *				4096 buffers.  Their limit is the bytes that
 *				were free or theirs, at most half of the device,
 *				when one of them last began to use the row or
 *				the worker was started; or the bytes that their
 *				user had reserved there, if that is more
 *		-EAGAIN		fewer than two jobs fit beside those in flight:
 *				take completions first
 *		-ETIME		the deadline passed; memory that is allocated
 *				after that is freed
 *		-EOPNOTSUPP	the device has no such memory
 *		-EINVAL		bytes is 0, or flags for other buffers; -E2BIG:
 *				a flag newer than this library
 *		-EIO		the worker died
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *				as gpumap_alloc()
 * Cost		a round trip to the worker, and what the device takes for it.
 *		Where there is no memory for it, the call waits for memory that
 *		closed sessions are giving back
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_alloc(struct gpumap_session *session, uint32_t row,
				   uint64_t bytes, uint32_t flags,
				   uint64_t deadline_ns, uint64_t *ret_buffer);

enum gpumap_buffer_kind {
	GPUMAP_BUFFER_ALLOCATED = 1,  /* by gpumap_buffer_alloc() */
	GPUMAP_BUFFER_IMPORTED = 2,   /* or opened in a share */
	GPUMAP_BUFFER_REGISTERED = 3, /* by gpumap_buffer_register() */
	GPUMAP_BUFFER_FILE = 4,       /* by gpumap_buffer_register_file() */
	GPUMAP_BUFFER_PROGRAM = 5,    /* by gpumap_program_load() */
	GPUMAP_BUFFER_MASK = 6        /* by gpumap_buffer_register_mask() */
};

struct gpumap_buffer_info {
	size_t size;    /* sizeof(struct gpumap_buffer_info) */
	uint64_t bytes; /* 0 for a program, and for a file, which may grow */
	uint32_t row;   /* whose memory it is; UINT32_MAX: of no single row */
	uint32_t kind;  /* enum gpumap_buffer_kind */
	uint32_t flags; /* GPUMAP_BUFFER_EXPORTABLE, GPUMAP_BUFFER_READ_ONLY */
	uint32_t reserved;
};

/*
 * gpumap_buffer_info - describe a buffer of this session
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		@size is smaller than the first fields
 *		-EOWNERDEAD	called in a forked child
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_info(const struct gpumap_session *session,
				  uint64_t buffer,
				  struct gpumap_buffer_info *ret_info);

/*
 * gpumap_buffer_free - free an allocated or imported buffer; 0 is allowed
 *
 * An allocated buffer: jobs that were submitted to its row before can still use
 * it.  Its memory is free once they have ended, and is then available to this
 * session's next allocation.  Jobs of other rows that copy from it end before
 * this call returns if they have begun, and with -ESTALE if they have not.  If
 * it was exported, no session can import it any more; sessions that have
 * imported it keep it.
 *
 * An imported buffer: no job that names it may be in flight.
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		it was registered: gpumap_buffer_unregister() it
 *		-EAGAIN		no job fits beside those in flight: take
 *				completions first
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		as gpumap_submit(); a round trip on the control socket if it was
 *		exported or imported, or copied from by another row
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_free(struct gpumap_session *session,
				  uint64_t buffer);

/*
 * gpumap_buffer_register - let jobs name memory of this process
 *
 * The memory is a memfd that cannot shrink (F_SEAL_SHRINK) and has no huge
 * pages of its own.  This process may map it, and need not.  This call makes no
 * request to the agent: the first job that names the memory on a row has it
 * mapped there, with all its pages, which takes about a second for each one or
 * two GiB where they are pinned for a device.  Holes are filled, and the bytes
 * count once, with this user's arenas.
 *
 * fd		stays the caller's
 * at		offset in the file, a multiple of 4096
 * bytes	at least 1
 * flags	GPUMAP_BUFFER_READ_ONLY, which is required if the descriptor or
 *		a seal forbids writing, or 0
 * ret_buffer	receives its name, never 0; give it back with
 *		gpumap_buffer_unregister()
 *
 * Returns	0
 *		-EINVAL		it can shrink, or is no memfd; the file ends
 *				before the bytes; @at is not at a page.
 *				gpumap_refusal() says which
 *		-E2BIG		a flag newer than this library
 *		-EDQUOT		this session has 4096 buffers
 *		-EBADF, -EMFILE, -ENOMEM
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		three system calls
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_register(struct gpumap_session *session, int fd,
				      uint64_t at, uint64_t bytes,
				      uint32_t flags, uint64_t *ret_buffer);

/*
 * gpumap_buffer_register_file - let GPUMAP_OP_LOAD read from a file
 *
 * The file is a regular file or a block device.  Its file system supports reads
 * past the page cache (O_DIRECT), or is in memory, or is one of those that
 * gpumapd knows to store bytes (overlayfs, squashfs, EROFS, ISO 9660, UDF, 9P,
 * AFS, ZFS, eCryptfs, JFFS2, UBIFS, cramfs, romfs, ramfs).  Other files, whose
 * content the kernel may generate on reading (/proc, /sys, message queues), are
 * refused, and so are those of FUSE file systems that are mounted with
 * direct_io, which io_uring reads wrong.
 *
 * Workers read it through a description of their own if /proc lets this library
 * open one, past the page cache if the file system supports that; the caller's
 * offset and flags stay as they are.  Where /proc does not, workers use the
 * caller's description, and gpumapd sets and clears O_DIRECT on it once, to
 * find out whether the file takes it.  This call makes no request to the agent:
 * the first job that names the file on a row opens it there.
 *
 * Only the source of a LOAD can be a file, and its src_at the offset in it, of
 * any alignment.  A file may grow, shrink and change meanwhile: a LOAD reads
 * the content at the time of reading.  Reading may begin once the LOAD is
 * submitted, and before earlier LOADs have ended; a LOAD finds what earlier
 * LOADs write to a memfd.
 *
 * fd		readable; stays the caller's, who may close it
 * flags	0
 * ret_file	receives its name, never 0; give it back with
 *		gpumap_buffer_unregister()
 *
 * Returns	0
 *		-EBADF		no descriptor, or one that cannot be read
 *		-EINVAL		no regular file and no block device
 *		-EOPNOTSUPP	a FUSE file whose file system is mounted with
 *				direct_io
 *		-E2BIG		a flag newer than this library
 *		-EDQUOT		this session has 4096 buffers and files
 *		-EMFILE, -ENOMEM
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		seven system calls
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_register_file(struct gpumap_session *session,
					   int fd, uint32_t flags,
					   uint64_t *ret_file);

/*
 * gpumap_buffer_register_mask - let jobs name a published mask
 *
 * Jobs of any row that has a replica may then name it as mask_buffer, or as
 * src_buffer, and each row reads its own replica: MASK_ADD takes a mask of the
 * job's dtype, MASK_BOOL a mask of u8.  The handle means the publication of
 * this moment: it stays the same, and its memory stays, until it is given back,
 * even if another mask is published under the name or the name is released.  No
 * row is told of it yet: the first job that names it on a row has the replica
 * mapped there, and on a card made, if this user has none.  Its bytes count
 * with this user's arenas: those of one replica for each NUMA node, once for
 * each handle.  All publications that a user's sessions have in use together
 * are at most what the user may have of masks.
 *
 * name		of the mask
 * ret_buffer	receives its handle, never 0; give it back with
 *		gpumap_buffer_unregister()
 * ret_version	receives the publication's version; may be NULL
 *
 * A job that names it on a row without a replica is refused with -ENOENT.
 *
 * Returns	0
 *		-ENOENT		no mask has this name
 *		-EINVAL		no mask can have this name, or it has no tensor
 *		-EACCES		this user may not read the memory of masks
 *		-EDQUOT		this user would have more than it may, or this
 *				session has 4096 buffers
 *		-ENOMEM, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_register_mask(struct gpumap_session *session,
					   const char *name,
					   uint64_t *ret_buffer,
					   uint64_t *ret_version);

/*
 * gpumap_buffer_unregister - end the registration of memory, a file or a mask;
 * 0 is allowed
 *
 * When this returns no worker has the memory mapped or reads the file any more.
 * No job that names it may be in flight.
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		it was not registered: gpumap_buffer_free() or
 *				gpumap_program_unload() it
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket, or none if no row has been
 *		told of it
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_unregister(struct gpumap_session *session,
					uint64_t buffer);

/*
 * gpumap_program_load - load a program of the agent's directory for RUN jobs
 *
 * Programs are files that the administrator has put there: shared objects for
 * host rows, device code for cards; gpumap/program.h describes them.  They
 * run in workers of this user's own, one for each row, separate from the row's
 * other work: a program that crashes, or runs longer than the administrator
 * allows, ends only that worker.  Jobs of this user's program sessions that
 * were in flight there end with -EIO then, and the next worker has the same
 * programs loaded before it begins another job.
 *
 * The program is loaded on @row now.  Jobs on other rows that name it load it
 * there: on rows of the same kind the same file, even if the directory has
 * changed; on rows of another kind the file of that name for that kind.  So
 * one scatter may run it on several.  The file's bytes count with this user's
 * arenas, once for each row of the session: each worker has a copy of its own.
 *
 * session	opened with GPUMAP_SESSION_PROGRAMS
 * row		a host row or a card
 * name		of the file, without ".so", ".fatbin", ".cubin", ".ptx",
 *		".cl" or ".spv": letters, digits, '.', '_' and '-'
 * ret_program	receives its handle, never 0; give it back with
 *		gpumap_program_unload()
 *
 * Returns	0
 *		-ENOENT		there is no such program, for rows of this kind;
 *				or its device code has no kernel gpumap_program
 *		-EPERM		its file or its folder is not safe, because
 *				another user could write it; or no programs for
 *				this user
 *		-ENOEXEC	it cannot be loaded, or is not for this version,
 *				or not for this card; its text does not compile:
 *				gpumap_refusal() has the compiler's words
 *		-EFBIG		device code with more bytes than image-limit
 *		-EIO		loading it killed the worker
 *		-EOPNOTSUPP	the row runs no programs
 *		-EINVAL		no such name, or the session was opened without
 *				the flag
 *		-EDQUOT		this session has 4096 buffers and programs, or
 *				this user has as many, or as many bytes, as the
 *				agent allows
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ENOMEM, -ECONNRESET, -EPROTO,
 *		-EOWNERDEAD	as gpumap_alloc().  gpumap_refusal() says more
 * Cost		a round trip on the control socket; a user's first program on a
 *		row starts a worker
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_program_load(struct gpumap_session *session, uint32_t row,
				   const char *name, uint64_t *ret_program);

/* Device code of the client's own, for cards. */
struct gpumap_program_image {
	size_t size;        /* sizeof(struct gpumap_program_image) */
	const void *image;  /* PTX, a cubin or a fatbin; OpenCL C or SPIR-V for
			     * a row of OpenCL, SPIR-V for one of Vulkan, a
			     * code object for one of HIP */
	uint64_t bytes;     /* of it */
	const char *kernel; /* its entry point; NULL: gpumap_program */
};

/*
 * gpumap_program_load_image - load the client's own device code for RUN jobs
 *
 * As gpumap_program_load(), for cards only.  The image is copied; each row
 * that runs it compiles it for itself, if it must be compiled.
 *
 * session	opened with GPUMAP_SESSION_PROGRAMS
 * row		a card
 * image	gpumap/program.h describes kernels
 * ret_program	receives its handle, never 0; give it back with
 *		gpumap_program_unload()
 *
 * Returns	0
 *		-ENOEXEC	it is no image, or is cut off, or not for this
 *				card; its text does not compile:
 *				gpumap_refusal() has the compiler's words
 *		-ENOENT		it has no such kernel
 *		-EFBIG		more bytes than the administrator allows
 *		-EINVAL		no bytes, no name of a kernel, or the session
 *				was opened without the flag
 *		-EOPNOTSUPP	a host row
 *		-E2BIG		image uses a field newer than this library
 *		-EDQUOT		as gpumap_program_load(); or the image's bytes
 *				are more than this user may have registered
 *		-EPERM, -ESTALE, -ENODEV, ...	as gpumap_program_load()
 *		gpumap_refusal() says more
 * Cost		as gpumap_program_load(), and a copy of the image
 * Threads	the session's own thread
 */
GPUMAP_API int
gpumap_program_load_image(struct gpumap_session *session, uint32_t row,
			  const struct gpumap_program_image *image,
			  uint64_t *ret_program);

/*
 * gpumap_program_unload - unload a program on all rows; 0 is allowed
 *
 * No job that names it may be in flight.
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such program
 *		-EINVAL		it is a buffer
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_program_unload(struct gpumap_session *session,
				     uint64_t program);

/*
 * gpumap_buffer_export - let other sessions and processes import a buffer
 *
 * A process that knows the number may import the buffer if the agent's
 * configuration allows that for its user.  An importer can write: no device
 * prevents it.  The memory stays charged until the last importer is gone.
 *
 * buffer	allocated with GPUMAP_BUFFER_EXPORTABLE
 * ret_export	receives a number for gpumap_buffer_import() and
 *		gpumap_export_fd(), the same at every call.  The number is valid
 *		until gpumap_buffer_unexport(), gpumap_buffer_free(), or the end
 *		of the session or of the row's worker
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		it is not exportable
 *		-EBUSY		it is shared read-only, or other sessions have
 *				imported it read-only
 *		-EDQUOT		this user has as many exports, or exported bytes
 *				of the row, as it may
 *		-EOPNOTSUPP, -EMFILE	of the device
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket, and one to the worker
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_export(struct gpumap_session *session,
				    uint64_t buffer, uint64_t *ret_export);

/*
 * gpumap_buffer_unexport - end the export of a buffer; 0 is allowed
 *
 * The buffer stays, and no session can import it any more.  Those that have
 * imported it keep it.
 *
 * Returns	0, also where it is not exported
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		it was not allocated here
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket, or none
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_unexport(struct gpumap_session *session,
				      uint64_t buffer);

/*
 * gpumap_buffer_import - import another session's buffer into this session
 *
 * Jobs on the row whose memory it is may use it, like a buffer that was
 * allocated here.
 *
 * flags	GPUMAP_BUFFER_READ_ONLY or 0
 * ret_buffer	receives its name here; give it back with gpumap_buffer_free()
 *
 * Returns	0
 *		-ENOENT		there is no such export, or not any more
 *		-EACCES		the agent does not share between these two users
 *		-EDQUOT		this session has 4096 buffers, or this user has
 *				as many imports, or on the row as many imported
 *				bytes, as it may
 *		-EINVAL		flags for other buffers; -E2BIG: newer ones
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ENOMEM, -EOPNOTSUPP
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket, and one to the worker
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_import(struct gpumap_session *session,
				    uint64_t export_id, uint32_t flags,
				    uint64_t *ret_buffer);

struct gpumap_export_info {
	size_t size;    /* sizeof(struct gpumap_export_info), by the caller */
	uint64_t bytes; /* of the buffer */
	uint32_t row;   /* the row whose memory it is */
	uint32_t reserved;
};

/*
 * gpumap_export_fd - get a descriptor of an exported buffer
 *
 * For a program that maps the memory itself: gpumap/cuda.h maps it into a CUDA
 * context; for a host row the descriptor is a memfd for mmap().  The memory
 * exists as long as the descriptor or a mapping of it.
 *
 * ret_info	set its @size before the call
 * ret_fd	receives the descriptor, close-on-exec, for the caller to close
 *
 * Returns	0
 *		-ENOENT, -EACCES, -EDQUOT	as gpumap_buffer_import()
 *		-E2BIG, -EINVAL	ret_info->size is more than 4096 bytes, or
 *				smaller than its first fields
 *		-EMFILE, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_export_fd(struct gpumap *map, uint64_t export_id,
				struct gpumap_export_info *ret_info,
				int *ret_fd);

#ifdef __cplusplus
}
#endif
#endif
