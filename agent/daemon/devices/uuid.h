/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * uuid - the uuid of a row that no vendor has given one.
 *
 * The same machine, node and share have the same uuid after every restart and
 * reboot.  The uuid is of version 8 over two SipHash-2-4 values, keyed with
 * the machine's id, of the texts
 *
 *	"gpumap host node <node> share <part> of <parts> 0"	and "... 1"
 *
 * with the node's number and a part from 0.  A dummy row has that of the lines
 *
 *	"gpumap dummy\n<node>\n<row>\n<index> 0"		and "... 1"
 *
 * with the names of the node and the row, and how many rows of this name come
 * before it: others may be added to the file or taken out.
 *
 * A row of HIP, OpenCL or Vulkan has that of the lines
 *
 *	"gpumap opencl\n<vendor>\n<id> 0"			and "... 1"
 *
 * with the name of the driver, of the vendor's file, and the device's id, as
 * gm_stream_identify() makes it; HIP's vendor is amdgpu, and its ids are those
 * of the probe.
 *
 * The key is /etc/machine-id, which is confidential and cannot be computed back
 * from a uuid; where there is none the key is the host's name, twice hashed
 * with the key zero.
 */
#ifndef GM_DAEMON_DEVICES_UUID_H
#define GM_DAEMON_DEVICES_UUID_H

#include <stddef.h>
#include <stdint.h>

/* Returns SipHash-2-4 of @bytes of @data. */
uint64_t gm_uuid_hash(const uint8_t key[16], const void *data, size_t bytes);

/* The machine's key, read once at start. */
void gm_uuid_key(uint8_t ret_key[16]);

void gm_uuid_host(const uint8_t key[16], int node, uint32_t part,
		  uint32_t parts, uint8_t ret_uuid[16]);
void gm_uuid_dummy(const uint8_t key[16], const char *node, const char *row,
		   uint32_t index, uint8_t ret_uuid[16]);
void gm_uuid_vendor(const uint8_t key[16], const char *driver,
		    const char *vendor, const char *id, uint8_t ret_uuid[16]);

/* For a card of which only its NVML index is known: of version 8, as no card of
 * NVIDIA's has one. */
void gm_uuid_nameless(uint32_t index, uint8_t ret_uuid[16]);

#endif
