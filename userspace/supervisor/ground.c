/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lock, directories, schema mark, sockets. Secrets have a file of their own.
 * Everything here is safe to repeat at every start.
 */
#include "supervisor/ground.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"

enum {
	SCHEMA = 1,
	BACKLOG = 4096, /* a crowd that says nothing must not fill it for the others */
};

/* --- Users */

static const struct {
	enum config_reader who;
	const char *user;
} users[] = {
	{ FOR_BROKER, "cordon-broker" },
	{ FOR_LEDGER, "cordon-ledger" },
	{ FOR_GATEWAY, "cordon-gateway" },
	{ FOR_SKILLS, "cordon-skills" },
};

void plane_daemon_id(const struct plane *p, enum config_reader who, uint32_t *ret_uid,
		     uint32_t *ret_gid)
{
	*ret_uid = *ret_gid = config_daemon_id(&p->config, who);
	if (strcmp(p->places.root, "/") != 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		struct passwd *pw = users[i].who == who ? getpwnam(users[i].user) : NULL;
		if (pw) {
			*ret_uid = pw->pw_uid;
			*ret_gid = pw->pw_gid;
		}
	}
}

/* --- Lock */

int ground_lock(const struct plane *p, struct err *e)
{
	if (fd_mkdir_parents(p->places.run, 0755, e) < 0)
		return -e->code;
	autoclose int fd =
		open(p->places.pid, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0644);
	if (fd < 0)
		return err_set(e, errno, "open '%s': %s", p->places.pid, strerror(errno));
	/* A `cordon up` that looks whether the lock is held does so for a moment: look again. */
	int rc = -1;
	for (int tries = 0; tries < 5 && rc < 0; tries++) {
		rc = flock(fd, LOCK_EX | LOCK_NB);
		if (rc < 0)
			usleep(5000);
	}
	if (rc < 0) {
		char pid[16] = { 0 };
		ssize_t n = read(fd, pid, sizeof(pid) - 1);
		if (n > 0 && pid[n - 1] == '\n')
			pid[n - 1] = '\0';
		return err_set(e, EALREADY, "already up%s%s", pid[0] ? ", process " : "", pid);
	}
	return take_fd(&fd);
}

int ground_write_pid(int lock_fd, struct err *e)
{
	char pid[16];
	int n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());

	if (ftruncate(lock_fd, 0) < 0 || pwrite(lock_fd, pid, (size_t)n, 0) != n)
		return err_set(e, errno ? errno : EIO, "write the process id: %s", strerror(errno));
	return 0;
}

/* --- Directories */

struct directory {
	size_t place; /* offset in struct places */
	const char *below;
	mode_t mode;
	enum config_reader user; /* 0: root */
	enum config_reader group;
};

#define AT(place) offsetof(struct places, place)

static const struct directory directories[] = {
	{ AT(etc), "", 0755, 0, 0 },
	{ AT(secrets), "", 0711, 0, 0 },
	{ AT(run), "", 0755, 0, 0 },
	{ AT(logs), "", 0750, 0, 0 },
	/* SQLite makes files beside ledger.db: the ledger may add here, and remove only its own. */
	{ AT(state), "", 01775, 0, FOR_LEDGER },
	{ AT(state), "/images", 0755, 0, 0 },
	{ AT(state), "/layers", 0755, 0, 0 },
	{ AT(state), "/workspaces", 0700, 0, 0 },
	{ AT(state), "/broker", 0700, FOR_BROKER, FOR_BROKER },
	/* the stager's, which is root without any capability; the others only read */
	{ AT(state), "/skills", 02750, 0, FOR_SKILLS },
};

static int make_directory(const struct plane *p, const struct directory *d, struct err *e)
{
	char path[PLACES_PATH_MAX + 32];
	uint32_t uid = 0, gid = 0, unused;

	snprintf(path, sizeof(path), "%s%s", (const char *)&p->places + d->place, d->below);
	if (d->user)
		plane_daemon_id(p, d->user, &uid, &unused);
	if (d->group)
		plane_daemon_id(p, d->group, &unused, &gid);
	if (fd_mkdir_parents(path, 0755, e) < 0)
		return -e->code;
	autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "directory '%s': %s", path, strerror(errno));
	if (fchown(fd, uid, gid) < 0 || fchmod(fd, d->mode) < 0)
		return err_set(e, errno, "owner and mode of '%s': %s", path, strerror(errno));
	return 0;
}

int ground_make_directories(const struct plane *p, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		if (make_directory(p, &directories[i], e) < 0)
			return -e->code;
	return 0;
}

/* --- The mark of an instance that has state */

static void schema_path(const struct plane *p, char *ret, size_t size)
{
	snprintf(ret, size, "%s/schema", p->places.state);
}

int ground_read_schema(const struct plane *p, struct err *e)
{
	char path[PLACES_PATH_MAX + 8], *end;
	autofree char *text = NULL;

	schema_path(p, path, sizeof(path));
	int rc = fd_read_file(AT_FDCWD, path, 64, &text, NULL, e);
	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return rc;
	unsigned long v = strtoul(text, &end, 10);
	if (end == text || (*end != '\n' && *end) || v == 0)
		return err_set(e, EINVAL, "'%s' holds no version", path);
	if (v > SCHEMA)
		return err_set(e, EINVAL, "'%s': state of version %lu, this program knows %d", path,
			       v, SCHEMA);
	return (int)v;
}

int ground_seal_schema(const struct plane *p, struct err *e)
{
	char path[PLACES_PATH_MAX + 8], text[16];

	schema_path(p, path, sizeof(path));
	if (access(path, F_OK) == 0)
		return 0;
	int n = snprintf(text, sizeof(text), "%d\n", SCHEMA);
	return fd_replace_file(AT_FDCWD, path, text, (size_t)n, 0644, e);
}

/* --- Mounts */

int ground_own_mounts(struct err *e)
{
	/* What the host mounts later is still seen; what is mounted here is not seen there. */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return err_set(e, errno, "a mount namespace of our own: %s", strerror(errno));
	return 0;
}

int ground_mount_pins(const struct plane *p, struct err *e)
{
	char path[PLACES_PATH_MAX + 8];

	snprintf(path, sizeof(path), "%s/bpf", p->places.run);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "directory '%s': %s", path, strerror(errno));
	if (mount(p->instance, path, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0)
		return err_set(e, errno, "mount bpffs at '%s': %s", path, strerror(errno));
	return 0;
}

/* --- Sockets */

static int listen_at(const char *path, int type, mode_t mode, gid_t gid, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(a.sun_path))
		return err_set(e, ENAMETOOLONG, "socket path too long: '%s'", path);
	strcpy(a.sun_path, path); /* length checked above */
	autoclose int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, errno, "socket: %s", strerror(errno));
	unlink(path);
	mode_t old = umask(0177);
	int rc = bind(fd, (struct sockaddr *)&a, sizeof(a));
	int why = errno;
	umask(old);
	if (rc < 0)
		return err_set(e, why, "bind '%s': %s", path, strerror(why));
	if (lchown(path, 0, gid) < 0 || chmod(path, mode) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, errno, "socket '%s': %s", path, strerror(errno));
	return take_fd(&fd);
}

int ground_listen(const struct plane *p, struct err *e)
{
	struct group *g = p->config.group[0] ? getgrnam(p->config.group) : NULL;

	return listen_at(p->places.socket, SOCK_STREAM, 0660, g ? g->gr_gid : 0, e);
}

int ground_listen_control(const struct plane *p, struct err *e)
{
	return listen_at(p->places.control, SOCK_SEQPACKET, 0600, 0, e);
}
