/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rendering, reading and checking of checkpoints and cuts. Does no file I/O
 * but for the boot id: who writes and reads the file is the caller's business.
 */
#include "audit/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/scope.h"
#include "digest/secrets.h"

static const char checkpoint_label[] = "cordon-ledger-checkpoint-1";
static const char cut_label[] = "cordon-ledger-cut-1";

static void point_text(const struct audit_point *p, char *ret, size_t size)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(p->link, DIGEST_LEN, hex);
	snprintf(ret, size, "%020" PRIu64 " %s", p->sequence, hex);
}

/* Everything before the MAC. Gives its length. */
static int render_body(const struct audit_checkpoint *c, uint32_t key_version, char *buf,
		       size_t size)
{
	char live[128], synced[128];

	point_text(&c->live, live, sizeof(live));
	point_text(&c->synced, synced, sizeof(synced));
	return snprintf(buf, size, "%s\nlive %s %s\nsynced %s\nkey %u\nmac ", checkpoint_label, live,
			c->boot, synced, key_version);
}

void audit_checkpoint_render(const struct secret *key, const struct audit_checkpoint *c,
			     char ret[AUDIT_CHECKPOINT_LEN])
{
	char buf[AUDIT_CHECKPOINT_LEN];
	uint8_t mac[DIGEST_LEN];
	int n = render_body(c, key->version, buf, sizeof(buf));

	_Static_assert(AUDIT_CHECKPOINT_LEN >= 27 + 5 + 85 + 38 + 7 + 86 + 15 + 4 + 65, "it fits");
	digest_hmac_sha256(key->key, key->len, buf, (size_t)n, mac);
	digest_hex(mac, DIGEST_LEN, buf + n);
	n += 2 * DIGEST_LEN;
	memcpy(ret, buf, (size_t)n);
	memset(ret + n, ' ', AUDIT_CHECKPOINT_LEN - (size_t)n);
	ret[AUDIT_CHECKPOINT_LEN - 1] = '\n';
}

static bool boot_is_sane(const char *s)
{
	return strlen(s) == AUDIT_BOOT_LEN && strspn(s, "0123456789abcdef-") == AUDIT_BOOT_LEN;
}

/*
 * Reads loosely, then renders again and compares: only the one spelling that we
 * write ourselves is accepted, so there is nothing to be lenient about.
 */
int audit_checkpoint_parse(const char *text, size_t len, const struct secret_set *keys,
			   struct audit_checkpoint *ret, struct err *e)
{
	char buf[AUDIT_CHECKPOINT_LEN + 1], again[AUDIT_CHECKPOINT_LEN];
	char live[65], synced[65];
	struct audit_checkpoint c = { 0 };
	uint32_t version;

	if (len != AUDIT_CHECKPOINT_LEN)
		return err_set(e, EINVAL, "checkpoint of %zu bytes", len);
	memcpy(buf, text, len);
	buf[len] = '\0';
	if (sscanf(buf,
		   "cordon-ledger-checkpoint-1\nlive %" SCNu64 " %64s %36s\nsynced %" SCNu64
		   " %64s\nkey %" SCNu32 "\nmac ",
		   &c.live.sequence, live, c.boot, &c.synced.sequence, synced, &version) != 6 ||
	    digest_unhex(live, c.live.link, DIGEST_LEN) < 0 ||
	    digest_unhex(synced, c.synced.link, DIGEST_LEN) < 0 || !boot_is_sane(c.boot))
		return err_set(e, EINVAL, "checkpoint is malformed");
	const struct secret *key = secrets_version(keys, version);
	if (!key)
		return err_set(e, ENOKEY, "checkpoint is under key %u", version);
	audit_checkpoint_render(key, &c, again);
	if (!digest_equal(again, text, AUDIT_CHECKPOINT_LEN))
		return err_set(e, EBADMSG, "checkpoint was changed");
	*ret = c;
	return 0;
}

const struct audit_point *audit_checkpoint_due(const struct audit_checkpoint *c, const char *boot)
{
	return boot && strcmp(boot, c->boot) == 0 ? &c->live : &c->synced;
}

int audit_boot_id(char ret[AUDIT_BOOT_LEN + 1], struct err *e)
{
	autofree char *text = NULL;
	size_t len;

	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &text, &len, e) < 0)
		return -e->code;
	text[strcspn(text, "\n")] = '\0';
	if (!boot_is_sane(text))
		return err_set(e, EINVAL, "boot id is malformed");
	memcpy(ret, text, AUDIT_BOOT_LEN + 1);
	return 0;
}

void audit_cut_mac(const struct secret *key, const struct audit_cut *cut, uint8_t ret[DIGEST_LEN])
{
	char buf[256], point[128];

	point_text(&cut->upto, point, sizeof(point));
	int n = snprintf(buf, sizeof(buf), "%s\n%s\n%lld\n%u\n", cut_label, point,
			 (long long)cut->time_us, cut->key_version);
	digest_hmac_sha256(key->key, key->len, buf, (size_t)n, ret);
}
