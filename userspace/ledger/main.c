/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-ledger: the audit ledger of an instance.
 *
 * Theory of operation. One process, one thread, one user of its own, no
 * capability, no network, no child. cordond starts it as root with descriptor 3
 * and ROOT/var/lib/cordon as working directory. Phases, and what is held after
 * each:
 *
 *   start     root; S_START read, the socket to the broker in hand
 *   early     root without a way to more; makes the files it will own and opens
 *	       the directories of the checkpoint and of the chain key
 *   final     its user; may read and write the database's three files, the
 *	       directory of checkpoint and spool, read the key's; system calls
 *	       of files and messages. After this it cannot gain privilege.
 *   store     the key in memory, the database open, the checkpoint compared
 *   serve     requests of include/proto/ledger.h, until cordond says stop or
 *	       is gone
 *
 * The broker is trusted to say who did what, and nothing else: what may become
 * a row is decided here once more (admit.c). What arrived together is committed
 * together (batch.c); rows are chained under a key that the database does not
 * hold (rows.c, audit/), the checkpoint outside it follows every commit
 * (keeper.c), and what cannot be written waits (spool.c). A database that
 * cannot be used now does not end the ledger; one that is not ours, or newer
 * than this program, does at start.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/scope.h"
#include "config/start.h"
#include "json/json.h"
#include "ledger/ledger.h"
#include "ledger/privileges.h"

static const char dir_name[] = "ledger"; /* beside the database: checkpoint, spool */

static int open_dir(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_set(e, errno, "'%s': %s", path, strerror(errno)) : fd;
}

/* As root: files and directories for the ledger's user, and ways to them. */
static int prepare_files(struct ledger *l, const struct s_start *s, char *keys_path, size_t size,
			 struct err *e)
{
	snprintf(keys_path, size, "%s/etc/cordon/secrets/chain", strcmp(s->root, "/") ? s->root : "");
	if (store_make_files(s->uid, s->gid, e) < 0)
		return -e->code;
	if (mkdir(dir_name, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "'%s': %s", dir_name, strerror(errno));
	l->dir_fd = open_dir(dir_name, e);
	if (l->dir_fd < 0)
		return l->dir_fd;
	if (fchown(l->dir_fd, s->uid, s->gid) < 0 || fchmod(l->dir_fd, 0700) < 0)
		return err_set(e, errno, "'%s': %s", dir_name, strerror(errno));
	l->keys_fd = open_dir(keys_path, e);
	return l->keys_fd < 0 ? l->keys_fd : 0;
}

static int confine(struct ledger *l, const struct s_start *s, const char *keys_path, struct err *e)
{
	const struct confine_as as = {
		.uid = s->uid,
		.gid = s->gid,
		.args = {
			[PATH_DB] = store_db,
			[PATH_WAL] = store_wal,
			[PATH_SHM] = store_shm,
			[PATH_DIR] = dir_name,
			[PATH_KEYS] = keys_path,
		},
	};

	return confine_final(&ledger_confinement, &as, &l->guards_missing, e);
}

/*
 * What is not a ledger of ours ends the start; a disk that is full or failing
 * does not: rows are spooled meanwhile, and `required` mode refuses by itself.
 */
static int open_all(struct ledger *l, struct err *e)
{
	if (ledger_load_keys(l, e) < 0 || spool_open(&l->spool, l->dir_fd, e) < 0)
		return -e->code;
	int rc = ledger_open_store(l, e);
	if (rc == -ENOSPC || rc == -EIO || rc == -EBUSY) {
		log_error("store_down", "%s", e->msg);
		return 0;
	}
	return rc;
}

static int run(struct ledger *l, struct start *start, struct err *e)
{
	char keys_path[512];

	if (start_receive(start, e) < 0)
		return -e->code;
	l->uid = start->s.uid;
	l->is_required = start->config.audit == AUDIT_REQUIRED;
	l->retention_ms = start->config.audit_retention_ms;
	json_start();
	if (confine_early(&ledger_confinement, e) < 0 ||
	    prepare_files(l, &start->s, keys_path, sizeof(keys_path), e) < 0)
		return -e->code;
	if (confine(l, &start->s, keys_path, e) < 0) /* after this we cannot gain privilege */
		return -e->code;
	if (open_all(l, e) < 0 || start_ready(e) < 0) /* after this no failing disk may stop us */
		return -e->code;
	return serve(l, start_take_fd(start, SFD_BROKER), e);
}

int main(void)
{
	autofree struct ledger *l = calloc(1, sizeof(*l));
	struct start start;
	struct err e;

	log_open("cordon-ledger");
	if (!l)
		return EXIT_FAILURE;
	l->dir_fd = l->keys_fd = l->spool.fd = l->keeper.fd = -1;
	if (run(l, &start, &e) < 0) {
		log_error("fatal", "%s", e.msg);
		start_fatal(&e);
		ledger_close(l);
		return EXIT_FAILURE;
	}
	ledger_close(l);
	return EXIT_SUCCESS;
}
