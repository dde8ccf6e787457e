/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Modules, libraries and their functions.  A library is a module without a
 * context: its kernels belong to whichever context launches them.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fake/module.h"

static struct fake_module *modules;

/* The compiler is looked for by the linker's rules alone, wherever this driver
 * was found. */
static bool has_compiler(void)
{
	static void *compiler;

	if (!compiler)
		compiler = dlopen("libnvidia-ptxjitcompiler.so.1",
				  RTLD_NOW | RTLD_LOCAL);
	return compiler;
}

/* Compiled code is kept where $CUDA_CACHE_PATH says, if that can be written. */
static void keep(void)
{
	const char *folder = getenv("CUDA_CACHE_PATH");
	char path[PATH_MAX];
	int fd;

	if (!folder)
		return;
	snprintf(path, sizeof(path), "%s/index", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
}

static CUresult compile(struct fake_device *dev, const void *image,
			struct fake_code *ret_code)
{
	const struct fake_fault *fault = NULL;
	struct fake_code code;
	CUresult result;
	bool fits = true;

	if (!has_compiler())
		return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
	fake_lock(&fake.hw);
	if (dev)
		fault = fake_fault(&fake.hw, FAKE_JIT_FAILS, dev->gpu);
	result = fault ? (CUresult)fault->value : CUDA_SUCCESS;
	fake_unlock(&fake.hw);
	if (!result)
		result = fake_code_read(image, fake.version, &code);
	if (result)
		return result;
	if (dev)
		fits = fake_code_fits(&code, &fake.hw.board->gpus[dev->gpu]);
	if (!fits) {
		free(code.entries);
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	keep();
	*ret_code = code;
	return CUDA_SUCCESS;
}

/* The compiler's messages go to the buffers that the options name. */
static void tell(CUresult result, unsigned int n, const CUjit_option *options,
		 void *const *values)
{
	char *log = NULL;
	size_t room = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
			log = values[i];
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
			room = (size_t)(uintptr_t)values[i];
	}
	if (log && room && result == CUDA_ERROR_INVALID_PTX)
		snprintf(log, room,
			 "ptxas application ptx input, line 1;\n"
			 "\terror   : Parsing error near 'stand-in'\n");
}

static CUresult load(struct fake_context *ctx, const void *image,
		     struct fake_module **ret_module)
{
	struct fake_module *module = calloc(1, sizeof(*module));
	CUresult result;

	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = compile(ctx ? ctx->dev : NULL, image, &module->code);
	if (!result) {
		module->handle = fake_handle_new(FAKE_MODULE, module);
		if (!module->handle)
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result) {
		free(module->code.entries);
		free(module);
		return result;
	}
	module->ctx = ctx;
	module->next = modules;
	modules = module;
	*ret_module = module;
	return CUDA_SUCCESS;
}

static void unload(struct fake_module **at)
{
	struct fake_module *module = *at;

	*at = module->next;
	while (module->functions) {
		struct fake_function *f = module->functions;

		module->functions = f->next;
		fake_handle_drop(FAKE_FUNCTION, f->handle);
		free(f);
	}
	fake_handle_drop(FAKE_MODULE, module->handle);
	free(module->code.entries);
	free(module);
}

void fake_modules_forget(struct fake_context *ctx)
{
	struct fake_module **at = &modules;

	while (*at) {
		if ((*at)->ctx == ctx)
			unload(at);
		else
			at = &(*at)->next;
	}
}

/* Whether the C function takes what the entry is declared to take. */
static bool is_alike(const struct fake_entry *entry,
		     const struct fake_kernel *kernel)
{
	unsigned int n = (unsigned int)strlen(kernel->params);
	bool is_same = n == entry->n_params;

	for (unsigned int i = 0; is_same && i < n; i++)
		is_same = entry->sizes[i] ==
			  (unsigned int)(kernel->params[i] - '0');
	if (!is_same)
		fprintf(stderr, "stand-in: %s has other parameters in C\n",
			entry->name);
	return is_same;
}

/* The function of a name; the same one each time it is asked for. */
static CUresult find(struct fake_module *module, const char *name,
		     uint64_t *ret_handle)
{
	const struct fake_entry *entry = NULL;
	const struct fake_kernel *kernel = fake_kernel_find(name);
	struct fake_function *f;

	for (f = module->functions; f; f = f->next)
		if (strcmp(f->entry->name, name) == 0) {
			*ret_handle = f->handle;
			return CUDA_SUCCESS;
		}
	for (unsigned int i = 0; i < module->code.n_entries; i++)
		if (strcmp(module->code.entries[i].name, name) == 0)
			entry = &module->code.entries[i];
	if (!entry || !kernel || !is_alike(entry, kernel))
		return CUDA_ERROR_NOT_FOUND;
	f = calloc(1, sizeof(*f));
	if (f)
		f->handle = fake_handle_new(FAKE_FUNCTION, f);
	if (!f || !f->handle) {
		free(f);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	f->module = module;
	f->entry = entry;
	f->kernel = kernel;
	f->next = module->functions;
	module->functions = f;
	*ret_handle = f->handle;
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n,
			    CUjit_option *options, void **values)
{
	struct fake_context *ctx;
	struct fake_module *m;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	if (!module || !image || (n && (!options || !values)))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = fake_context_calm(ctx);
	if (!result)
		result = load(ctx, image, &m);
	if (!result)
		*module = (CUmodule)(uintptr_t)m->handle;
	tell(result, n, options, values);
	return fake_leave(result);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

static struct fake_module *module_of(uint64_t handle, bool is_library)
{
	struct fake_module *module = fake_handle_get(FAKE_MODULE, handle);

	return module && !module->ctx == is_library ? module : NULL;
}

static void remove_module(struct fake_module *module)
{
	struct fake_module **at = &modules;

	while (*at != module)
		at = &(*at)->next;
	unload(at);
}

CUresult cuModuleUnload(CUmodule module)
{
	struct fake_context *ctx;
	struct fake_module *m;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	m = module_of((uintptr_t)module, false);
	if (!m)
		return fake_leave(CUDA_ERROR_INVALID_HANDLE);
	result = fake_context_alone(m->ctx);
	if (!result)
		remove_module(m);
	return fake_leave(result);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
			     const char *name)
{
	struct fake_context *ctx;
	struct fake_module *m;
	CUresult result = fake_enter_context(&ctx);
	uint64_t handle = 0;

	if (result)
		return result;
	m = module_of((uintptr_t)module, false);
	if (!m)
		return fake_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!function || !name)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = find(m, name, &handle);
	if (!result)
		*function = (CUfunction)(uintptr_t)handle;
	return fake_leave(result);
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *image,
			   CUjit_option *options, void **values, unsigned int n,
			   CUlibraryOption *library_options,
			   void **library_values, unsigned int n_library)
{
	struct fake_module *m;
	CUresult result = fake_enter();

	if (result)
		return result;
	if (!library || !image)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = load(NULL, image, &m);
	if (!result)
		*library = (CUlibrary)(uintptr_t)m->handle;
	return fake_leave(result);
}

CUresult cuLibraryUnload(CUlibrary library)
{
	struct fake_module *m;
	CUresult result = fake_enter();

	if (result)
		return result;
	m = module_of((uintptr_t)library, true);
	if (!m)
		return fake_leave(CUDA_ERROR_INVALID_HANDLE);
	for (struct fake_context *c = fake.contexts; c && !result; c = c->next)
		result = fake_context_alone(c);
	if (!result)
		remove_module(m);
	return fake_leave(result);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library,
			    const char *name)
{
	struct fake_module *m;
	CUresult result = fake_enter();
	uint64_t handle = 0;

	if (result)
		return result;
	m = module_of((uintptr_t)library, true);
	if (!m)
		return fake_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!kernel || !name)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = find(m, name, &handle);
	if (!result)
		*kernel = (CUkernel)(uintptr_t)handle;
	return fake_leave(result);
}

/* A kernel and its function in a context are the same number here. */
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	struct fake_context *ctx;
	struct fake_function *f;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	f = fake_handle_get(FAKE_FUNCTION, (uintptr_t)kernel);
	if (!f || f->module->ctx)
		return fake_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!function)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	if (!fake_code_fits(&f->module->code,
			    &fake.hw.board->gpus[ctx->dev->gpu]))
		return fake_leave(CUDA_ERROR_NO_BINARY_FOR_GPU);
	*function = (CUfunction)(uintptr_t)f->handle;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
			    CUfunction function)
{
	struct fake_context *ctx;
	struct fake_function *f;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	f = fake_handle_get(FAKE_FUNCTION, (uintptr_t)function);
	if (!f || !value)
		return fake_leave(f ? CUDA_ERROR_INVALID_VALUE
				    : CUDA_ERROR_INVALID_HANDLE);
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*value = 0;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = 16;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = (int)f->module->code.target;
		break;
	default:
		result = CUDA_ERROR_INVALID_VALUE;
	}
	return fake_leave(result);
}
