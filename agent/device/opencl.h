/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl - the driver of OpenCL rows (gpu.h): what its files share.
 *
 *	opencl.c		opening, and what an error means
 *	opencl_build.c		texts, which gpumap-build compiles
 *	opencl_compile.c	how it does
 *	opencl_library.c	a vendor's library, and the devices it shows
 *	opencl_memory.c		memory of the device, the worker and clients
 *	opencl_program.c	operators, and programs of clients
 *	opencl_work.c		work on lanes, and marks
 *
 * A process has one vendor's library, and no loader: the compilers that such
 * libraries bring do not bear each other.
 *
 * A lane is a queue that works in order.  A mark is the event of the last work
 * on it, whose callback, on a thread of the library, writes the lane's word.
 * No event is asked for its status that may not have ended: some libraries wait
 * for that before they answer.
 *
 * A device whose memory is the processor's uses that of the worker and of
 * clients in place.  For any other, clients' memory is staged, and staging has
 * a twin in the device's memory: the part that a kernel uses is copied there
 * before, and its results are copied back.
 *
 * A kernel is given a memory and an offset in it for each address: an
 * operator's as ops_opencl.h has it, a client's program's as
 *
 *	__kernel void name(__global uchar *dst, ulong dst_at,
 *			   __global uchar *src, ulong src_at, ulong n,
 *			   struct params params)
 *
 * whose last argument is missing where there are no parameters, and which may
 * have more items than n, for they come in whole groups.  The pointers may be
 * to anything global, and the parameters are a struct of any tag.  A program is
 * a text, or a module of SPIR-V with the same arguments.
 */
#ifndef GM_OPENCL_H
#define GM_OPENCL_H

#include <sys/types.h>

#include "agent/device/build_wire.h"
#include "agent/device/opencl_abi.h"
#include "agent/device/stream.h"

#define GM_OPENCL_KERNELS 64u /* operators, of each dtype */
/* Where addresses of memory begin: none of the process's is so high. */
#define GM_OPENCL_FIRST (UINT64_C(1) << 56)

/* The functions of a library. */
struct gm_opencl_calls {
#define SYMBOL(slot, name, type, arguments) type(*name) arguments;
#include "agent/device/opencl_symbols.h"
};

struct gm_opencl;

/* One of an operator or of a program. */
struct gm_opencl_kernel {
	/* Operands may begin at any byte, or [1] with whole elements: NULL
	 * where there is none. */
	gm_cl of[2];
	uint32_t group;  /* items */
	uint32_t each;   /* elements, or bytes, that go together */
	uint32_t items;  /* for those */
	uint32_t n_args; /* of a client's; else 0 */
};

struct gm_opencl_box; /* of opencl_work.c */

struct gm_opencl {
	struct gm_gpu gpu;
	const struct gm_opencl_calls *cl;
	gm_cl device, context;
	gm_cl operators[2]; /* as the kernels; [1]: NULL on a CPU */
	uint32_t n_kernels;
	struct gm_opencl_kernel kernels[GM_OPENCL_KERNELS];
	bool is_cpu;
	bool is_apart;                  /* its memory from the processor's */
	bool has_f32, has_f64;          /* exactly */
	uint64_t total, alloc_max;      /* bytes of its memory, of one piece */
	gm_cl queues[GM_GPU_LANES + 1]; /* and GM_GPU_SLOW */
	gm_a64 *words;
	struct gm_opencl_box *box;
	gm_a64 used;   /* bytes of the device's memory */
	pid_t builder; /* gpumap-build; 0: there is none */
	int builder_socket;
	const char *kept; /* folder of compiled operators, or NULL */
	bool keeps;       /* this worker writes it */
	uint64_t next;    /* slow thread: address of the next memory */
};

/* ---- opencl_library.c ---------------------------------------------------- */

/*
 * gm_opencl_list - open a vendor's library, and list its devices
 *
 * library	its name, as a file of /etc/OpenCL/vendors has it; one that is
 *		open is taken again, and another refused
 * ret_why	on failure, a line for people
 *
 * Returns	how many
 *		-ENOENT		there is no such library
 *		-ELIBBAD	it cannot be loaded, or is none of OpenCL's
 *		-EOPNOTSUPP	it lacks functions of OpenCL 1.2
 *		-EBUSY		the process has another
 */
int gm_opencl_list(const char *library,
		   struct gm_gpu_facts ret_facts[GM_GPU_DEVICES],
		   gm_cl ret_devices[GM_GPU_DEVICES],
		   char ret_why[GM_GPU_WHY_BYTES]);

/* The same, and find the device of this id, NULL for the first.  Returns 0, or
 * as gm_opencl_list(), or -ENODEV: there is none. */
int gm_opencl_library(const char *library, const char *id,
		      const struct gm_opencl_calls **ret_calls,
		      gm_cl *ret_device, char ret_why[GM_GPU_WHY_BYTES]);

/*
 * gm_opencl_il - the function that makes programs of SPIR-V
 *
 * version	the second word of a module
 * ret_why	what the device takes, where that is not it
 *
 * Returns	NULL: the device takes none of this version
 */
gm_opencl_create_with_il *gm_opencl_il(gm_cl device, uint32_t version,
				       char ret_why[GM_GPU_WHY_BYTES]);

#define GM_OPENCL_CALL(opencl, call, ...) \
	gm_stream_check(&(opencl)->gpu, (opencl)->cl->call(__VA_ARGS__))

/* ---- opencl_memory.c ----------------------------------------------------- */

struct gm_opencl_mem {
	struct gm_gpu_mem mem;
	gm_cl memory;
	bool is_pinned;   /* the worker's */
	bool is_twin;     /* and as much of the device's */
	uint64_t counted; /* of the device's memory */
};

static inline gm_cl gm_opencl_memory_of(const struct gm_gpu_mem *mem)
{
	return ((const struct gm_opencl_mem *)mem)->memory;
}

/* The worker's side of memory that has a twin; else NULL. */
static inline char *gm_opencl_twin_of(struct gm_gpu_at at)
{
	const struct gm_opencl_mem *m = (const struct gm_opencl_mem *)at.mem;

	return m && m->is_twin ? m->mem.host + at.offset : NULL;
}

/* ---- opencl_work.c ------------------------------------------------------- */

/* Returns 0, -ENOMEM */
int gm_opencl_work_open(struct gm_opencl *opencl);

/* Once all work has ended; on a device that is lost callbacks may come later,
 * and find it closed. */
void gm_opencl_work_close(struct gm_opencl *opencl);

/* Where the event of the next work on a lane goes: the last argument of a call
 * that puts it there. */
gm_cl *gm_opencl_event(struct gm_opencl *opencl, uint32_t lane);

/* Bring bytes of the processor's to the library's memory, or back. */
gm_cl_int gm_opencl_move(struct gm_opencl *opencl, uint32_t lane,
			 struct gm_gpu_at at, char *host, uint64_t bytes,
			 bool is_back);

/* Wait for the work of a lane that has no mark yet, and forget its events.
 * Returns 0, -ENOTRECOVERABLE */
int gm_opencl_drain(struct gm_opencl *opencl, uint32_t lane);

/* ---- opencl_build.c ------------------------------------------------------ */

/* Start gpumap-build, before the worker is confined.  Returns 0, -errno */
int gm_opencl_builder_open(struct gm_opencl *opencl,
			   const struct gm_device_config *config);
void gm_opencl_builder_close(struct gm_opencl *opencl);

/*
 * gm_opencl_build - make a program of a text
 *
 * image	its kernel: that a client's program has, in the form above; "":
 *		it is ours
 * options	of the compiler
 * kept		the name of the file that keeps the binary, or NULL
 * ret_why	"", or what the compiler said
 *
 * A kept binary is taken only for the same text, options, device and version of
 * the driver.
 *
 * Threads	one at a time
 * Returns	0
 *		-ENOEXEC	the compiler refuses it, or ended
 *		-ENOENT		there is no such kernel
 *		-ETIMEDOUT	compiling took too long
 *		-ENOMEM, -EPIPE, ...
 */
int gm_opencl_build(struct gm_opencl *opencl,
		    const struct gm_kernel_image *image, const char *options,
		    const char *kept, gm_cl *ret_program,
		    char ret_why[GM_BUILD_LOG]);

/* ---- opencl_compile.c: gpumap-build's ------------------------------------ */

/*
 * gm_opencl_compile - make the binary of a text
 *
 * library, id	as gm_opencl_library()
 * image	with a kernel that is not "": the program is a client's, and the
 *		kernel has the form that is described above
 * ret_why	on failure "", or a line of the compiler's
 *
 * Returns	0
 *		-ENOEXEC	the compiler refuses it, or the kernel's form is
 *				another
 *		-ENOENT		it has no such kernel
 *		-ENOMEM, -EIO, and what gm_opencl_library() returns
 */
int gm_opencl_compile(const char *library, const char *id,
		      const struct gm_kernel_image *image, const char *options,
		      struct gm_kernel_image *ret_binary,
		      char ret_why[GM_BUILD_LOG]);

/*
 * gm_opencl_module - does a whole module have the kernel, in that form?
 *
 * A library need not tell the arguments of a module's kernel.
 *
 * Returns	0, -ENOEXEC, -ENOENT, -ENOMEM
 */
int gm_opencl_module(const struct gm_kernel_image *image,
		     char ret_why[GM_BUILD_LOG]);

/* ---- opencl_program.c ---------------------------------------------------- */

/* Build the operators.  A compiler that refuses them costs the row its
 * operators, and the log says why.  Returns 0, or -errno: they were not
 * compiled. */
int gm_opencl_operators(struct gm_opencl *opencl);
void gm_opencl_operators_close(struct gm_opencl *opencl);

/* ---- of all files: as gpu.h ---------------------------------------------- */

/* One table, one shape. */
/* clang-format off */

#define GM_OPENCL_DRIVER(CALL) \
	CALL(opencl, alloc) CALL(opencl, pin) CALL(opencl, reach) \
	CALL(opencl, release) CALL(opencl, copy) CALL(opencl, fill) \
	CALL(opencl, launch) CALL(opencl, mark) CALL(opencl, after) \
	CALL(opencl, finish) CALL(opencl, find) CALL(opencl, load) \
	CALL(opencl, unload)

GM_OPENCL_DRIVER(GM_STREAM_DRIVER_DECLARE)

/* clang-format on */

#endif
