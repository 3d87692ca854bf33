/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A read-only file system layer for SQLite over two descriptors. The log's
 * index is kept in SQLite's own memory (locking_mode=EXCLUSIVE), because a
 * shared one would be a third file beside somebody else's two.
 */
#include "audit/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "audit/schema.h"

enum {
	NAME_MAX_LEN = 64,
	LOG_HEADER_LEN = 32, /* of a -wal: another one means that it began anew */
	VALUE_MAX = 1024 * 1024, /* many times what a row or the schema's text may be */
	CLOCK_STEP_MS = 20,  /* the coarsest a file's time advances in */
};

/* What of the files must not change while they are read. */
struct state {
	struct timespec changed;
	off_t size;
	uint8_t log[LOG_HEADER_LEN];
};

struct audit_copy {
	int db, log; /* -1: there is no log */
	bool is_registered;
	struct state seen;
	char name[32];
	sqlite3_vfs vfs;
};

struct copy_file {
	sqlite3_file base;
	int fd;
};

static int file_close(sqlite3_file *f)
{
	(void)f; /* the descriptors are the copy's */
	return SQLITE_OK;
}

static int file_read(sqlite3_file *f, void *buf, int len, sqlite3_int64 at)
{
	int fd = ((struct copy_file *)f)->fd, done = 0;

	while (fd >= 0 && done < len) {
		ssize_t n = pread(fd, (char *)buf + done, (size_t)(len - done), at + done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return SQLITE_IOERR_READ;
		if (n == 0)
			break;
		done += (int)n;
	}
	memset((char *)buf + done, 0, (size_t)(len - done));
	return done == len ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *f, const void *buf, int len, sqlite3_int64 at)
{
	(void)f, (void)buf, (void)len, (void)at;
	return SQLITE_READONLY;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	(void)f, (void)size;
	return SQLITE_READONLY;
}

static int file_flags(sqlite3_file *f, int flags)
{
	(void)f, (void)flags; /* nothing to sync, nobody to lock out */
	return SQLITE_OK;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
	struct stat st = { 0 };
	int fd = ((struct copy_file *)f)->fd;

	if (fd >= 0 && fstat(fd, &st) < 0)
		return SQLITE_IOERR_FSTAT;
	*ret = st.st_size;
	return SQLITE_OK;
}

static int file_is_reserved(sqlite3_file *f, int *ret)
{
	(void)f;
	*ret = 0;
	return SQLITE_OK;
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
	(void)f, (void)op, (void)arg;
	return SQLITE_NOTFOUND;
}

static int file_zero(sqlite3_file *f)
{
	(void)f;
	return 0; /* sector size, characteristics: the presets */
}

static const sqlite3_io_methods methods = {
	.iVersion = 1, /* no shared memory, no mapping */
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_flags,
	.xFileSize = file_size,
	.xLock = file_flags,
	.xUnlock = file_flags,
	.xCheckReservedLock = file_is_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_zero,
	.xDeviceCharacteristics = file_zero,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
	const struct audit_copy *c = vfs->pAppData;
	struct copy_file *file = (struct copy_file *)f;

	(void)name;
	f->pMethods = NULL;
	if (!(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)))
		return SQLITE_CANTOPEN; /* no journal, no temporary file */
	file->fd = flags & SQLITE_OPEN_WAL ? c->log : c->db;
	f->pMethods = &methods;
	if (ret_flags)
		*ret_flags = SQLITE_OPEN_READONLY;
	return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	(void)vfs, (void)name, (void)sync;
	return SQLITE_READONLY;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	const struct audit_copy *c = vfs->pAppData;
	size_t len = strlen(name);

	(void)flags;
	*ret = c->log >= 0 && len > 4 && !strcmp(name + len - 4, "-wal");
	return SQLITE_OK;
}

static int vfs_full_pathname(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
	(void)vfs;
	return snprintf(out, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int vfs_randomness(sqlite3_vfs *vfs, int len, char *out)
{
	(void)vfs;
	memset(out, 0, (size_t)len); /* salts of logs and names of files are never made here */
	return len;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
	(void)vfs, (void)us;
	return 0;
}

static int vfs_time(sqlite3_vfs *vfs, double *ret)
{
	(void)vfs;
	*ret = 0;
	return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *out)
{
	(void)vfs, (void)size, (void)out;
	return errno;
}

/* -1 with *e set, or a descriptor of a regular file. */
static int open_file(const char *path, int flags, struct err *e)
{
	struct stat st;
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "'%s': %s", path, strerror(errno)), -1;
	if (!S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "'%s' is no regular file", path), -1;
	return take_fd(&fd);
}

int audit_copy_open(const char *path, struct audit_copy **ret, struct err *e)
{
	auto_(audit_copy) c = calloc(1, sizeof(*c));
	char log[4096 + 8];

	if (!c)
		return err_set(e, ENOMEM, "copy: out of memory");
	c->db = c->log = -1;
	if ((size_t)snprintf(log, sizeof(log), "%s-wal", path) >= sizeof(log))
		return err_set(e, ENAMETOOLONG, "path is too long");
	c->db = open_file(path, 0, e);
	if (c->db < 0)
		return -e->code;
	c->log = open_file(log, O_NOFOLLOW, e);
	if (c->log < 0 && e->code != ENOENT)
		return -e->code;
	snprintf(c->name, sizeof(c->name), "cordon-copy-%d", c->db);
	c->vfs = (sqlite3_vfs){
		.iVersion = 1,
		.szOsFile = sizeof(struct copy_file),
		.mxPathname = NAME_MAX_LEN,
		.zName = c->name,
		.pAppData = c,
		.xOpen = vfs_open,
		.xDelete = vfs_delete,
		.xAccess = vfs_access,
		.xFullPathname = vfs_full_pathname,
		.xRandomness = vfs_randomness,
		.xSleep = vfs_sleep,
		.xCurrentTime = vfs_time,
		.xGetLastError = vfs_last_error,
	};
	if (sqlite3_vfs_register(&c->vfs, 0) != SQLITE_OK)
		return err_set(e, ENOMEM, "copy: out of memory");
	c->is_registered = true;
	*ret = take_ptr(c);
	return 0;
}

static bool read_state(const struct audit_copy *c, struct state *ret)
{
	struct stat st;

	memset(ret, 0, sizeof(*ret));
	if (fstat(c->db, &st) < 0)
		return false;
	ret->changed = st.st_mtim;
	ret->size = st.st_size;
	return c->log < 0 || pread(c->log, ret->log, LOG_HEADER_LEN, 0) >= 0;
}

/*
 * A file's time advances in steps: two writes within one look like one. So the
 * state is only taken when the last write is longer ago than a step, and
 * whatever comes later shows.
 */
static void settle(struct audit_copy *c)
{
	static const struct timespec step = { .tv_nsec = CLOCK_STEP_MS * 1000000L };
	struct timespec now;

	if (!read_state(c, &c->seen))
		return; /* audit_copy_is_stale() will not be able to either, and say so */
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t age_ms = (now.tv_sec - c->seen.changed.tv_sec) * 1000 +
			 (now.tv_nsec - c->seen.changed.tv_nsec) / 1000000;
	if (age_ms < CLOCK_STEP_MS)
		nanosleep(&step, NULL);
}

int audit_copy_connect(struct audit_copy *c, sqlite3 **ret, struct err *e)
{
	sqlite3 *db = NULL;

	settle(c);
	if (sqlite3_open_v2("copy", &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, c->name) !=
		    SQLITE_OK ||
	    sqlite3_exec(db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA temp_store=MEMORY;"
			     "PRAGMA cell_size_check=ON; PRAGMA cache_size=-4096",
			 NULL, NULL, NULL) != SQLITE_OK) {
		audit_db_error(db, "database", e);
		sqlite3_close(db);
		return -e->code;
	}
	sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	audit_db_harden(db);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
	*ret = db;
	return 0;
}

bool audit_copy_is_stale(const struct audit_copy *c)
{
	struct state now;

	return !read_state(c, &now) || memcmp(&now, &c->seen, sizeof(now)) != 0;
}

void audit_copy_free(struct audit_copy *c)
{
	if (!c)
		return;
	if (c->is_registered)
		sqlite3_vfs_unregister(&c->vfs);
	if (c->db >= 0)
		close(c->db);
	if (c->log >= 0)
		close(c->log);
	free(c);
}
