/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap.h - find this node's devices and submit jobs to them.
 *
 * Reading costs no system call: calls that read copy from memory that gpumapd
 * publishes, and never block.  Submitting costs none while the worker of the
 * row is awake, and one when it sleeps.
 *
 * Names      The object, then what is done with it: gpumap_mask_open().  Calls
 *            of the attachment, and those of a session's arena and jobs, name
 *            no object: gpumap_attach(), gpumap_alloc(), gpumap_submit().
 *            Counterparts are alloc and free, open and close, publish and
 *            release, register and unregister, export and unexport, pin and
 *            unpin.
 * Errors     0 or a count on success, a negative errno on failure; nothing is
 *            stored through a ret_ pointer then.  gpumap_strerror() has a
 *            sentence for each, gpumap_refusal() the reason and the remedy.
 * Threads    Said for each call.  "any" means that threads may share what the
 *            call is given without a lock.  "any, in turn" is the same, but the
 *            call waits until requests that other threads make through the same
 *            attachment are answered.  A session's, view's or mask's "own
 *            thread" is one at a time: threads hand it on with a lock of the
 *            program's.  gpumap(7) has a table.
 * Deadlines  Absolute, on CLOCK_MONOTONIC as the caller's time namespace has
 *            it, in nanoseconds; GPUMAP_NO_DEADLINE: none.  A field of a struct
 *            that is 0 means none, too; an argument that is 0 has passed, so
 *            the call does not wait.  gpumap(7) says how long calls may wait
 *            that take none.
 * Fork       A child may go on reading the map, but not pinned views and masks.
 *            Session calls fail with -EOWNERDEAD there, and so do calls that
 *            talk to the agent.
 * Manners    The library prints nothing, starts no thread, installs no signal
 *            handler, reads no environment and keeps no state outside of what
 *            it gives you, but for each thread's gpumap_refusal().
 *
 * Structs whose first field is @size grow at their end only: set @size to
 * sizeof the struct and zero the rest.  A library that is older than its caller
 * answers -E2BIG when a field that it does not know is set.  In a struct that
 * it fills in, such fields become 0, and @size the bytes that it knows.  A
 * struct or a name that is NULL where none may be is -EINVAL; a @size of more
 * than 4096 bytes was not set, and is -E2BIG.  Other pointers are not checked.
 *
 * This header includes all others except gpumap/cuda.h, nccl.h and uring.h,
 * which each need another package, gpumap/program.h, which is for programs that
 * rows run, and gpumap/engine.h, model.h and plan.h, whose functions are
 * libgpumap-model's: link with -lgpumap-model as well.
 */
#ifndef GPUMAP_H
#define GPUMAP_H

#include <gpumap/buffer.h>
#include <gpumap/cluster.h>
#include <gpumap/collective.h>
#include <gpumap/job.h>
#include <gpumap/layers.h>
#include <gpumap/map.h>
#include <gpumap/mask.h>
#include <gpumap/mesh.h>
#include <gpumap/policy.h>
#include <gpumap/reservation.h>
#include <gpumap/session.h>
#include <gpumap/share.h>
#include <gpumap/trace.h>
#include <gpumap/types.h>
#include <gpumap/view.h>

#endif
