/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool's file:
 *
 *	cordon-ledger-spool-1 NONCE
 *	MAC LINE TIME KEYVERSION BODY
 *
 * How far it is drained stands in the database, in the same transaction as the
 * rows themselves, as NONCE:OFFSET:LINE; when all is drained the file is emptied
 * and gets another nonce. So no crash drains a line twice.
 */
#include "ledger/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "digest/digest.h"
#include "digest/secrets.h"
#include "ledger/store.h"
#include "proto/ledger.h"

enum { HEADER_LEN = 22 + 32 + 1, LINE_MAX_LEN = LEDGER_JSON_MAX + 160 };

static const char label[] = "cordon-ledger-spool-1 ";
static const char state_key[] = "spool";

static void line_mac(const struct secret *key, const char *nonce, const char *rest, size_t len,
		     char hex[DIGEST_HEX_MAX])
{
	autofree char *buf = malloc(sizeof(label) + 32 + len);
	uint8_t mac[DIGEST_LEN] = { 0 };

	if (buf) {
		memcpy(buf, label, sizeof(label));
		memcpy(buf + sizeof(label), nonce, 32);
		memcpy(buf + sizeof(label) + 32, rest, len);
		digest_hmac_sha256(key->key, key->len, buf, sizeof(label) + 32 + len, mac);
	}
	digest_hex(mac, DIGEST_LEN, hex);
}

static int start_file(struct spool *s, struct err *e)
{
	uint8_t raw[16];
	char header[HEADER_LEN + 1];

	if (digest_random(raw, sizeof(raw)) < 0)
		return err_set(e, EIO, "spool: no random bytes");
	digest_hex(raw, sizeof(raw), s->nonce);
	snprintf(header, sizeof(header), "%s%s\n", label, s->nonce);
	if (ftruncate(s->fd, 0) < 0)
		return err_set(e, errno, "spool: %s", strerror(errno));
	if (fd_pwrite_all(s->fd, header, HEADER_LEN, 0, e) < 0)
		return err_wrap(e, "spool");
	s->end = HEADER_LEN;
	s->line = 1;
	return 0;
}

/* What a former life left: its nonce, its end, and how many lines (some may be drained). */
static void read_left_over(struct spool *s)
{
	char header[HEADER_LEN], buf[4096];
	ssize_t n = pread(s->fd, header, sizeof(header), 0);

	if (n != HEADER_LEN || memcmp(header, label, sizeof(label) - 1) != 0)
		return;
	memcpy(s->nonce, header + sizeof(label) - 1, 32);
	s->end = HEADER_LEN;
	for (int64_t at = HEADER_LEN; (n = pread(s->fd, buf, sizeof(buf), at)) > 0; at += n)
		for (ssize_t i = 0; i < n; i++)
			if (buf[i] == '\n') {
				s->lines++;
				s->end = at + i + 1; /* a torn last line is written over */
			}
	s->line = s->lines + 1;
}

int spool_open(struct spool *s, int dirfd, struct err *e)
{
	*s = (struct spool){ .fd = -1 };
	s->fd = fd_open_beneath(dirfd, "spool", O_RDWR | O_CREAT, 0600, e);
	if (s->fd < 0)
		return s->fd;
	read_left_over(s);
	return 0;
}

static bool put_file(struct spool *s, const struct secret *key, int64_t time_us, const char *body,
		     size_t len)
{
	autofree char *line = malloc(LINE_MAX_LEN);
	struct err ignored;

	if (!line || len > LEDGER_JSON_MAX || s->end > SPOOL_FILE_MAX ||
	    (s->end == 0 && start_file(s, &ignored) < 0))
		return false;
	char *rest = line + 2 * DIGEST_LEN + 1;
	int n = snprintf(rest, 96, "%" PRIu64 " %" PRId64 " %u ", s->line, time_us, key->version);
	memcpy(rest + n, body, len);
	/* Between JSON's tokens a line break is white space; inside a string it cannot be. */
	for (size_t i = 0; i < len; i++)
		if (rest[n + (int)i] == '\n' || rest[n + (int)i] == '\r')
			rest[n + (int)i] = ' ';
	size_t total = (size_t)n + len;
	line_mac(key, s->nonce, rest, total, line);
	line[2 * DIGEST_LEN] = ' ';
	rest[total] = '\n';
	total += 2 * DIGEST_LEN + 2;
	if (fd_pwrite_all(s->fd, line, total, s->end, &ignored) < 0) {
		if (ftruncate(s->fd, s->end) < 0)
			return false; /* a torn line: its MAC is wrong, and it is written over */
		return false;
	}
	s->end += (int64_t)total;
	s->line++;
	s->lines++;
	return true;
}

static bool put_queue(struct spool *s, int64_t time_us, const char *body, size_t len)
{
	if (s->queued == SPOOL_QUEUE_MAX || s->queued_bytes + len > SPOOL_QUEUE_BYTES)
		return false;
	char *copy = malloc(len + 1);
	if (!copy)
		return false;
	memcpy(copy, body, len);
	copy[len] = '\0';
	s->queue[s->queued++] = (struct spool_entry){ time_us, len, copy };
	s->queued_bytes += len;
	return true;
}

void spool_put(struct spool *s, const struct secret_set *keys, int64_t time_us, const char *body,
	       size_t len)
{
	if (!put_file(s, secrets_current(keys), time_us, body, len) &&
	    !put_queue(s, time_us, body, len))
		s->lost++;
}

uint64_t spool_pending(const struct spool *s)
{
	return s->lines + s->queued;
}

/* The state row of an earlier drain of this filling, or its beginning. */
static int read_position(struct spool *s, struct store *st, int64_t *ret_at, uint64_t *ret_line,
			 struct err *e)
{
	const struct value key = value_text(state_key);
	char nonce[33] = "";
	int rc = store_select(st, ST_STATE_GET, &key, 1, e);

	*ret_at = HEADER_LEN;
	*ret_line = 1;
	if (rc == 1) {
		const char *v = store_text(store_row(st, ST_STATE_GET), 0);
		int64_t at;
		uint64_t line;
		if (v && sscanf(v, "%32[0-9a-f]:%" SCNd64 ":%" SCNu64, nonce, &at, &line) == 3 &&
		    !strcmp(nonce, s->nonce) && at >= HEADER_LEN && at <= s->end) {
			*ret_at = at;
			*ret_line = line;
		}
	}
	store_done(st, ST_STATE_GET);
	return rc < 0 ? rc : 0;
}

static int write_position(struct spool *s, struct store *st, int64_t at, uint64_t line,
			  struct err *e)
{
	char text[96];

	snprintf(text, sizeof(text), "%s:%" PRId64 ":%" PRIu64, s->nonce, at, line);
	const struct value v[] = { value_text(state_key), value_text(text) };
	return store_run(st, ST_STATE_SET, v, 2, e);
}

/* One line without its newline. False: not ours, or not at its place. */
static bool parse_line(struct spool *s, const struct secret_set *keys, char *text, size_t len,
		       uint64_t expected, int64_t *ret_time, char **ret_body)
{
	char mac[DIGEST_HEX_MAX];
	uint64_t line;
	uint32_t version;
	int skip = 0;
	char *rest = text + 2 * DIGEST_LEN + 1;

	if (len < 2 * DIGEST_LEN + 2 || text[2 * DIGEST_LEN] != ' ' || strlen(text) != len ||
	    sscanf(rest, "%" SCNu64 " %" SCNd64 " %" SCNu32 " %n", &line, ret_time, &version,
		   &skip) != 3 || skip == 0 || line != expected)
		return false;
	const struct secret *key = secrets_version(keys, version);
	if (!key)
		return false;
	line_mac(key, s->nonce, rest, len - 2 * DIGEST_LEN - 1, mac);
	*ret_body = rest + skip;
	return digest_equal(mac, text, 2 * DIGEST_LEN);
}

/* Reads on from the drained position; gives how many lines went by. */
static int drain_lines(struct spool *s, const struct secret_set *keys, struct store *st,
		       spool_write *write_one, void *ctx, struct err *e)
{
	autofree char *text = NULL;
	size_t cap = 0;
	int64_t at, time_us;
	uint64_t line;
	char *body;
	int n = 0;

	if (read_position(s, st, &at, &line, e) < 0)
		return -e->code;
	autoclose int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
	autofclose FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f)
		return err_set(e, errno, "spool: %s", strerror(errno));
	(void)take_fd(&fd);
	if (fseeko(f, at, SEEK_SET) < 0)
		return err_set(e, errno, "spool: %s", strerror(errno));
	for (; n < SPOOL_CHUNK && at < s->end; n++, line++) {
		ssize_t len = getline(&text, &cap, f);
		if (len <= 0)
			break;
		at += len;
		if (text[len - 1] == '\n')
			text[--len] = '\0';
		if (!parse_line(s, keys, text, (size_t)len, line, &time_us, &body))
			s->lost++;
		else if (write_one(ctx, time_us, body, strlen(body), e) < 0)
			return -e->code;
	}
	return write_position(s, st, at, line, e) < 0 ? -e->code : n;
}

static int drain_queue(struct spool *s, spool_write *write_one, void *ctx, size_t *ret_n,
		       struct err *e)
{
	size_t n = s->queued < SPOOL_CHUNK ? s->queued : SPOOL_CHUNK;

	for (size_t i = 0; i < n; i++)
		if (write_one(ctx, s->queue[i].time_us, s->queue[i].body, s->queue[i].len, e) < 0)
			return -e->code;
	*ret_n = n;
	return 0;
}

static void forget_queued(struct spool *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		s->queued_bytes -= s->queue[i].len;
		free(s->queue[i].body);
	}
	memmove(s->queue, s->queue + n, (s->queued - n) * sizeof(s->queue[0]));
	s->queued -= n;
}

int spool_drain(struct spool *s, const struct secret_set *keys, struct store *st,
		spool_write *write_one, void *ctx, struct err *e)
{
	uint64_t lost = s->lost;
	size_t from_queue = 0;
	int from_file = 0;

	if (store_begin(st, e) < 0)
		return -e->code;
	if (s->lines > 0)
		from_file = drain_lines(s, keys, st, write_one, ctx, e);
	else if (drain_queue(s, write_one, ctx, &from_queue, e) < 0)
		from_file = -e->code;
	if (from_file < 0 || store_commit(st, e) < 0) {
		store_rollback(st);
		s->lost = lost;
		return -e->code;
	}
	forget_queued(s, from_queue);
	s->lines = (uint64_t)from_file < s->lines ? s->lines - (uint64_t)from_file : 0;
	if (from_file < SPOOL_CHUNK)
		s->lines = 0; /* the end of the file: a former life had drained the others */
	if (s->lines == 0 && s->end > 0 && ftruncate(s->fd, 0) == 0)
		s->end = 0;
	return 0;
}

void spool_close(struct spool *s)
{
	forget_queued(s, s->queued);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}
