/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/readable.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef CONFIGFS_MAGIC
#define CONFIGFS_MAGIC 0x62656570
#endif

/* Their files are made up as they are read: some wait for an event, and some
 * say other things to a worker than to the client. */
static bool is_made_up(int fd)
{
	static const uint32_t magics[] = {
		PROC_SUPER_MAGIC, SYSFS_MAGIC,        DEBUGFS_MAGIC,
		TRACEFS_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
		SECURITYFS_MAGIC, SELINUX_MAGIC,      SMACK_MAGIC,
		BPF_FS_MAGIC,     EFIVARFS_MAGIC,     PSTOREFS_MAGIC,
		NSFS_MAGIC,       BINFMTFS_MAGIC,     CONFIGFS_MAGIC,
	};
	struct statfs fs;

	if (fstatfs(fd, &fs) != 0)
		return true;
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
 * A file that takes O_DIRECT has storage, and one with seals is memory.  Only
 * for others is the kind of the file system read: file systems that would ask a
 * server for it take O_DIRECT.
 */
static bool has_bytes(int fd, int flags)
{
	return takes_direct(fd, flags) || fcntl(fd, F_GET_SEALS) >= 0 ||
	       !is_made_up(fd);
}

int gm_readable_check(int fd, struct gm_readable *ret_file,
		      char ret_why[GM_WHY_BYTES])
{
	int flags = fcntl(fd, F_GETFL);
	int mode = flags & O_ACCMODE;
	struct statx st;

	if (flags < 0 || (flags & O_PATH) ||
	    (mode != O_RDONLY && mode != O_RDWR))
		return gm_why(ret_why, -EBADF,
			      "the descriptor cannot be read; open the file "
			      "O_RDONLY");
	/* The attributes that the kernel remembers are enough: no server is
	 * asked. */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		  STATX_TYPE | STATX_INO, &st) != 0)
		return gm_why(ret_why, -EINVAL, "the descriptor is of no file");
	if (!S_ISREG(st.stx_mode) && !S_ISBLK(st.stx_mode))
		return gm_why(ret_why, -EINVAL,
			      "the descriptor is of no regular file and no "
			      "block device; nothing else can be loaded from");
	if (S_ISREG(st.stx_mode) && !has_bytes(fd, flags))
		return gm_why(ret_why, -EINVAL,
			      "the file is one of those that the kernel makes "
			      "up as they are read; copy it to a disk");
	ret_file->dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	ret_file->ino = st.stx_ino;
	return 0;
}
