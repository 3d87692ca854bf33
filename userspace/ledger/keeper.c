/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoint file: one fixed-size record, overwritten in place by one
 * write. It lies within a sector and within a page, so that neither a kill nor
 * the loss of power leaves half of it.
 */
#include "ledger/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/scope.h"
#include "digest/secrets.h"
#include "ledger/store.h"

static const char file_name[] = "checkpoint";

static int write_out(struct keeper *k, const struct secret_set *keys, struct err *e)
{
	char text[AUDIT_CHECKPOINT_LEN];

	memcpy(k->c.boot, k->boot, sizeof(k->boot));
	audit_checkpoint_render(secrets_current(keys), &k->c, text);
	return fd_pwrite_all(k->fd, text, sizeof(text), 0, e) < 0 ? err_wrap(e, "checkpoint") : 0;
}

__attribute__((format(printf, 2, 3))) static void freeze(struct keeper *k, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(k->why, sizeof(k->why), fmt, ap);
	va_end(ap);
	k->is_frozen = true;
}

/* The link the database has at @p's place: 1, or 0 where it has none. */
static int link_at(struct store *s, uint64_t sequence, uint8_t ret[DIGEST_LEN], struct err *e)
{
	const struct value v = value_int((int64_t)sequence);
	int rc, column = 0;

	if (sequence == 0) {
		audit_genesis(ret);
		return 1;
	}
	enum store_statement id = ST_ROW_LINK;
	rc = store_select(s, id, &v, 1, e);
	if (rc == 0) {
		store_done(s, id);
		id = ST_CUT_READ;
		column = 1;
		rc = store_select(s, id, NULL, 0, e);
		if (rc == 1 && sqlite3_column_int64(store_row(s, id), 0) != v.n)
			rc = 0;
	}
	if (rc == 1 && sqlite3_column_bytes(store_row(s, id), column) == DIGEST_LEN)
		memcpy(ret, sqlite3_column_blob(store_row(s, id), column), DIGEST_LEN);
	else if (rc == 1)
		rc = 0;
	store_done(s, id);
	return rc;
}

/* Does the database go on from where the checkpoint was? */
static int compare(struct keeper *k, struct store *s, struct err *e)
{
	const struct audit_point *due = audit_checkpoint_due(&k->c, k->boot);
	uint8_t link[DIGEST_LEN];

	if (s->head.sequence < due->sequence) {
		freeze(k, "database ends at row %llu, the checkpoint is at %llu",
		       (unsigned long long)s->head.sequence, (unsigned long long)due->sequence);
		return 0;
	}
	int rc = link_at(s, due->sequence, link, e);
	if (rc < 0)
		return rc;
	/* A retention cut beyond the checkpoint's row leaves nothing to compare. */
	if (rc == 1 && !digest_equal(link, due->link, DIGEST_LEN))
		freeze(k, "row %llu is not the one the checkpoint saw",
		       (unsigned long long)due->sequence);
	return 0;
}

static int start_new(struct keeper *k, const struct secret_set *keys, struct store *s,
		     struct err *e)
{
	if (s->head.sequence > 0) {
		freeze(k, "the checkpoint is missing, but there are rows");
		return 0;
	}
	k->c.live = k->c.synced = s->head;
	if (write_out(k, keys, e) < 0)
		return -e->code;
	return fsync(k->fd) < 0 ? err_set(e, errno, "checkpoint: %s", strerror(errno)) : 0;
}

int keeper_open(struct keeper *k, int dirfd, const struct secret_set *keys, struct store *s,
		struct err *e)
{
	char text[AUDIT_CHECKPOINT_LEN + 1];
	struct err why;

	*k = (struct keeper){ .fd = -1 };
	if (audit_boot_id(k->boot, e) < 0)
		return -e->code;
	k->fd = fd_open_beneath(dirfd, file_name, O_RDWR | O_CREAT, 0600, e);
	if (k->fd < 0)
		return k->fd;
	ssize_t n = pread(k->fd, text, sizeof(text), 0);
	if (n < 0)
		return err_set(e, errno, "checkpoint: %s", strerror(errno));
	if (n == 0)
		return start_new(k, keys, s, e);
	if (audit_checkpoint_parse(text, (size_t)n, keys, &k->c, &why) < 0) {
		freeze(k, "%.120s", why.msg);
		return 0;
	}
	return compare(k, s, e);
}

int keeper_advance(struct keeper *k, const struct secret_set *keys, const struct audit_point *p,
		   bool is_durable, struct err *e)
{
	if (k->is_frozen)
		return 0;
	k->c.live = *p;
	if (is_durable)
		k->c.synced = *p;
	if (fault_step("ledger.checkpoint", e) < 0)
		return -e->code;
	return write_out(k, keys, e);
}

bool keeper_is_synced(const struct keeper *k)
{
	return k->is_frozen || k->c.synced.sequence == k->c.live.sequence;
}

int keeper_sync(struct keeper *k, const struct secret_set *keys, struct err *e)
{
	if (k->is_frozen)
		return 0;
	k->c.synced = k->c.live;
	if (write_out(k, keys, e) < 0)
		return -e->code;
	return fdatasync(k->fd) < 0 ? err_set(e, errno, "checkpoint: %s", strerror(errno)) : 0;
}

const struct audit_point *keeper_due(const struct keeper *k, const char **ret_bad)
{
	*ret_bad = NULL;
	/* Frozen before anything was read: the file itself is the trouble. */
	if (k->is_frozen && k->c.boot[0] == '\0') {
		*ret_bad = k->why;
		return NULL;
	}
	return audit_checkpoint_due(&k->c, k->boot);
}

void keeper_close(struct keeper *k)
{
	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
}
