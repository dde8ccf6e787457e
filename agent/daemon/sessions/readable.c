/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/readable.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define UBIFS_MAGIC 0x24051905u
#define ROMFS_MAGIC 0x7275u
#define ZFS_MAGIC   0x2fc12fc1u

/*
 * File systems whose files need not take O_DIRECT, and have stored bytes.
 * Files of others may be made up as they are read: some wait for an event (a
 * message queue's for ever), and some say other things to a worker than to the
 * client.
 */
static bool is_stored(int fd)
{
	static const uint32_t magics[] = {
		RAMFS_MAGIC,          OVERLAYFS_SUPER_MAGIC,
		SQUASHFS_MAGIC,       EROFS_SUPER_MAGIC_V1,
		ISOFS_SUPER_MAGIC,    UDF_SUPER_MAGIC,
		CRAMFS_MAGIC,         ROMFS_MAGIC,
		ECRYPTFS_SUPER_MAGIC, JFFS2_SUPER_MAGIC,
		UBIFS_MAGIC,          ZFS_MAGIC,
		V9FS_MAGIC,           AFS_SUPER_MAGIC,
		AFS_FS_MAGIC,
	};
	struct statfs fs;

	if (fstatfs(fd, &fs) != 0)
		return false;
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if ((uint32_t)fs.f_type == magics[i])
			return true;
	return false;
}

/* Whether it reads past its cache, if it has one: the flag is only tried. */
static bool takes_direct(int fd, int flags)
{
	if (flags & O_DIRECT)
		return true;
	if (fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
		return false;
	fcntl(fd, F_SETFL, flags);
	return true;
}

/*
 * A file that takes O_DIRECT has storage.  Only for others is the kind of the
 * file system read: file systems that would ask a server for it take O_DIRECT.
 */
static bool has_bytes(int fd, int flags)
{
	return takes_direct(fd, flags) || is_stored(fd);
}

int gm_readable_check(int fd, char ret_why[GM_WHY_BYTES])
{
	int flags = fcntl(fd, F_GETFL);
	int mode = flags & O_ACCMODE;
	struct statx st;

	if (flags < 0 || (flags & O_PATH) ||
	    (mode != O_RDONLY && mode != O_RDWR))
		return gm_why(ret_why, -EBADF,
			      "the descriptor cannot be read; open the file "
			      "O_RDONLY");
	/* A file in memory.  Its client may hold the inode's lock, for which
	 * statx() waits on some kernels. */
	if (fcntl(fd, F_GET_SEALS) >= 0)
		return 0;
	/* The attributes that the kernel remembers are enough: no server is
	 * asked. */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE,
		  &st) != 0)
		return gm_why(ret_why, -EINVAL, "the descriptor is of no file");
	if (!S_ISREG(st.stx_mode) && !S_ISBLK(st.stx_mode))
		return gm_why(ret_why, -EINVAL,
			      "the descriptor is of no regular file and no "
			      "block device; nothing else can be loaded from");
	if (S_ISREG(st.stx_mode) && !has_bytes(fd, flags))
		return gm_why(ret_why, -EINVAL,
			      "the file is of a file system that may make it "
			      "up as it is read; copy it to a disk");
	return 0;
}
