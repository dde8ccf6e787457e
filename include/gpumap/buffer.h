/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/buffer.h - memory that is not the arena's, files and programs.
 *
 * A buffer is memory that is not the arena's: a device's own, a file of this
 * process, or what another session exports.  Its name is a number that means
 * something in its own session only; jobs carry it beside an offset.  A name
 * that is no buffer's any more is -ESTALE, one of another session -EPERM, and
 * one that nobody can have -ERANGE: never somebody else's memory.
 *
 * Jobs compute with memory of their own row.  A COPY may have a source on
 * another one, of any kind but a dummy: submit it to the row of its
 * destination.  That row's device reads the source itself where it can: a host
 * row's memory, and a card's that NVML says is reached and that a trial, once
 * for each two cards, has found to be copied right; both only of buffers that
 * were allocated with GPUMAP_BUFFER_EXPORTABLE.  Everything else goes by way of
 * 8 MiB of memory beside the arenas, for each session and row that copies so,
 * and takes the workers of both rows.
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

/* What a buffer is to be: bits of the flags of the calls below.  Others may
 * import it, the rows of this session among them; no job writes it, of what is
 * registered or imported. */
#define GPUMAP_BUFFER_EXPORTABLE (UINT32_C(1) << 0)
#define GPUMAP_BUFFER_READ_ONLY  (UINT32_C(1) << 1)

/*
 * gpumap_buffer_alloc - memory of a device's own
 *
 * Takes its turn behind what this session has in flight on the row.  Contents
 * are zero or what this session left there.  The first use of a row makes its
 * queue pair, for which no deadline holds: see gpumap_alloc().
 *
 * A buffer lives as long as the worker of its row: after the worker's death
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
 *				bytes there than they may, or this one has 4096
 *				buffers.  They may have what was free or theirs,
 *				half of the device at most, when one of them
 *				last began to use the row or the worker was
 *				started; or what their user had reserved there,
 *				if that is more
 *		-EAGAIN		fewer than two jobs fit beside those in flight:
 *				take completions first
 *		-ETIME		the deadline passed; what comes of it is freed
 *		-EOPNOTSUPP	the device has no such memory
 *		-EINVAL		bytes is 0, or flags for other buffers; -E2BIG:
 *				a flag newer than this library
 *		-EIO		the worker died
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *				as gpumap_alloc()
 * Cost		a round trip to the worker, and what the device takes for it.
 *		Where there is no memory for it, it waits for what closed
 *		sessions are giving back
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_alloc(struct gpumap_session *session, uint32_t row,
				   uint64_t bytes, uint32_t flags,
				   uint64_t deadline_ns, uint64_t *ret_buffer);

/*
 * gpumap_buffer_free - give back what was allocated or imported; 0 is allowed
 *
 * What was allocated: jobs that were submitted to its row before still have it.
 * Its memory is free once they have ended; an allocation of this session that
 * follows finds it.  Jobs of other rows that copy from it end before this
 * returns if they have begun, and with -ESTALE if they have not.  Where it was
 * exported nobody can import it any more, and those who have keep it.
 *
 * What was imported: no job that names it may be in flight.
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		it was registered: gpumap_forget() it
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
 * gpumap_register - let jobs name memory of this process
 *
 * The memory is a memfd that cannot shrink (F_SEAL_SHRINK) and has no huge
 * pages of its own.  It may be mapped here, and need not.  Nothing is asked of
 * the agent yet: the first job that names it on a row has it mapped there, with
 * all its pages, which takes about a second for each one or two GiB where they
 * are pinned for a device.  Holes are filled, and the bytes count once, with
 * this user's arenas.
 *
 * fd		stays the caller's
 * at		where it begins in the file, a multiple of 4096
 * bytes	at least 1
 * flags	GPUMAP_BUFFER_READ_ONLY, as it must be where the descriptor or a
 *		seal forbids writing, or 0
 * ret_buffer	receives its name, never 0; give it back with gpumap_forget()
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
GPUMAP_API int gpumap_register(struct gpumap_session *session, int fd,
			       uint64_t at, uint64_t bytes, uint32_t flags,
			       uint64_t *ret_buffer);

/*
 * gpumap_mask_use - let jobs name a published mask
 *
 * Jobs of any row that has a replica may then name it as mask_buffer, or as
 * src_buffer, and each row takes its own: MASK_ADD a mask of the job's dtype,
 * MASK_BOOL one of u8.  What they take is what is published now: whatever is
 * published or released under the name later, the handle means the same until
 * it is given back, and its memory stays.  No row is told of it yet: the first
 * job that names it there has the replica mapped, and on a CUDA row made, where
 * this user has none.  Its bytes count with this user's arenas, those of one
 * replica for each NUMA node, once for each handle; and all publications that a
 * user's sessions have in use are no more than it may have of masks.
 *
 * name		of the mask
 * ret_buffer	receives its handle, never 0; give it back with gpumap_forget()
 * ret_version	receives which publication it is; may be NULL
 *
 * A job that names it on a row without a replica is refused with -ENOENT.
 *
 * Returns	0
 *		-ENOENT		no mask has this name
 *		-EINVAL		no mask can have this name, or it has no tensor
 *		-EACCES		this user may not read the memory of masks
 *		-EDQUOT		it is more than this user may have, or this
 *				session has 4096 buffers
 *		-EOPNOTSUPP	the agent is older than this
 *		-ENOMEM, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_mask_use(struct gpumap_session *session, const char *name,
			       uint64_t *ret_buffer, uint64_t *ret_version);

/*
 * gpumap_program_load - have a program of the agent's directory for RUN jobs
 *
 * Programs are files that the administrator has put there: shared objects for
 * host rows, device code for CUDA rows; gpumap/program.h says what they are.
 * They run in workers of this user's own, one for each row, apart from the
 * row's other work: one that crashes, or runs longer than the administrator
 * allows, ends that worker alone.  Jobs of this user's program sessions that
 * were in flight there end with -EIO then, and the next worker has the same
 * programs loaded before it begins another job.
 *
 * It is brought in on @row now.  Jobs on other rows that name it bring it in
 * there: on rows of the same kind the same file whatever the directory has by
 * then, on rows of the other kind the file of that name for those.  So one
 * scatter may run it on both.  Its file's bytes count with this user's arenas,
 * once for each row of the session's: each worker has a copy of its own.
 *
 * session	opened with GPUMAP_SESSION_PROGRAMS
 * row		a host row or a CUDA row
 * name		of the file, without ".so", ".fatbin", ".cubin" or ".ptx":
 *		letters, digits, '.', '_' and '-'
 * ret_program	receives its handle, never 0; give it back with
 *		gpumap_program_unload()
 *
 * Returns	0
 *		-ENOENT		there is no such program, for rows of this kind;
 *				or its device code has no kernel gpumap_program
 *		-EPERM		its file or its folder is not safe: somebody
 *				else could write it; or no programs for this
 *				user
 *		-ENOEXEC	it cannot be loaded, or is none for this
 *				version, or for this card; its PTX does not
 *				compile: gpumap_refusal() has the compiler's
 *				words
 *		-EFBIG		device code with more bytes than image-limit
 *		-ESTALE		the worker died over it
 *		-EOPNOTSUPP	the row runs no programs
 *		-EINVAL		no such name, or the session was opened without
 *				the flag
 *		-EDQUOT		this session has 4096 buffers and programs, or
 *				this user as many, or as many bytes, as the
 *				agent allows
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ENOMEM, -ECONNRESET, -EPROTO,
 *		-EOWNERDEAD	as gpumap_alloc().  gpumap_refusal() says more
 * Cost		a round trip on the control socket; the first of a user on a row
 *		starts a worker
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_program_load(struct gpumap_session *session, uint32_t row,
				   const char *name, uint64_t *ret_program);

/* Device code of the client's own, for CUDA rows. */
struct gpumap_program_image {
	size_t size;        /* sizeof(struct gpumap_program_image) */
	const void *image;  /* PTX, a cubin or a fatbin */
	uint64_t bytes;     /* of it */
	const char *kernel; /* its entry point; NULL: gpumap_program */
};

/*
 * gpumap_program_load_image - have device code of one's own for RUN jobs
 *
 * As gpumap_program_load(), for CUDA rows alone.  The image is copied; each row
 * that runs it compiles it for itself, where it has to be compiled.
 *
 * session	opened with GPUMAP_SESSION_PROGRAMS
 * row		a CUDA row
 * image	gpumap/program.h says what a kernel is
 * ret_program	receives its handle, never 0; give it back with
 *		gpumap_program_unload()
 *
 * Returns	0
 *		-ENOEXEC	it is no image, or cut off, or none for this
 *				card; its PTX does not compile: gpumap_refusal()
 *				has the compiler's words
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
 * gpumap_program_unload - give it up on all rows; 0 is allowed
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
 * gpumap_register_file - let GPUMAP_OP_LOAD read from a file
 *
 * The file is a regular one or a block device, of any file system but those
 * that the kernel makes up as they are read (/proc, /sys) and FUSE ones that
 * are mounted with direct_io, which io_uring reads wrong.  Workers read it
 * through a description of their own where /proc lets this library open one,
 * past the page cache where its file system takes that; the caller's offset and
 * flags stay as they are.  Nothing is asked of the agent yet: the first job
 * that names it on a row opens it there.
 *
 * Only the source of a LOAD can be a file, and its src_at the offset in it, of
 * any alignment.  A file may grow, shrink and change meanwhile: what is read is
 * what is there then.  That is once the LOAD is submitted, and maybe before the
 * LOADs before it have ended; what these write to a memfd it finds there.
 *
 * fd		readable; stays the caller's, who may close it
 * flags	0
 * ret_file	receives its name, never 0; give it back with gpumap_forget()
 *
 * Returns	0
 *		-EBADF		no descriptor, or one that cannot be read
 *		-EINVAL		no regular file and no block device
 *		-EOPNOTSUPP	a FUSE file that is mounted with direct_io
 *		-E2BIG		a flag newer than this library
 *		-EDQUOT		this session has 4096 buffers and files
 *		-EMFILE, -ENOMEM
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		seven system calls
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_register_file(struct gpumap_session *session, int fd,
				    uint32_t flags, uint64_t *ret_file);

/*
 * gpumap_forget - end a registration, or an export; 0 is allowed
 *
 * A registration, or a mask: when this returns no worker has the memory mapped
 * any more, nor reads the file.  No job that names it may be in flight.  An
 * allocated buffer stays, and its export ends: those who have imported it keep
 * it.
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		it was imported: gpumap_buffer_free() it
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket, or none where nobody has
 *		been told of it
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_forget(struct gpumap_session *session, uint64_t buffer);

/*
 * gpumap_buffer_export - let other sessions and processes have a buffer
 *
 * Whoever knows the number may import the buffer if the agent's configuration
 * says so of its user.  An import can write: nothing in a device holds it back.
 * The memory stays charged until the last importer is gone.
 *
 * buffer	allocated with GPUMAP_BUFFER_EXPORTABLE
 * ret_export	receives a number for gpumap_buffer_import() and
 *		gpumap_export_fd(), the same at every call.  It holds until
 *		gpumap_forget(), gpumap_buffer_free(), or the end of the session
 *		or of the row's worker
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		it is not exportable
 *		-EBUSY		it is shared read-only, or others have had it so
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
 * gpumap_buffer_import - another session's buffer as one of this session
 *
 * It is for jobs on the row whose memory it is, as one that was allocated here.
 *
 * flags	GPUMAP_BUFFER_READ_ONLY or 0
 * ret_buffer	receives its name here; give it back with gpumap_buffer_free()
 *
 * Returns	0
 *		-ENOENT		there is no such export, or not any more
 *		-EACCES		the agent does not share between these two users
 *		-EDQUOT		this session has 4096 buffers, or this user as
 *				many imports, or of the row as many bytes that
 *				others have exported, as it may
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
	uint32_t row;   /* whose memory it is */
	uint32_t reserved;
};

/*
 * gpumap_export_fd - a descriptor of an exported buffer
 *
 * For a program that maps the memory itself: gpumap/cuda.h brings it into a
 * CUDA context; of a host row it is a memfd for mmap().  As long as the
 * descriptor or a mapping of it is there, so is the memory.
 *
 * ret_info	set its @size before the call
 * ret_fd	receives the descriptor, close-on-exec, for the caller to close
 *
 * Returns	0
 *		-ENOENT, -EACCES, -EDQUOT	as gpumap_buffer_import()
 *		-E2BIG, -EINVAL	ret_info->size is larger than this library
 *				knows, or smaller than its first fields
 *		-EMFILE, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_export_fd(struct gpumap *map, uint64_t export_id,
				struct gpumap_export_info *ret_info,
				int *ret_fd);

#ifdef __cplusplus
}
#endif
#endif
