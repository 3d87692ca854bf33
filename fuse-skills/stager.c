/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stager's frame: orders in, one at a time, answers out. Also the same for
 * root on an instance whose daemons do not run (once_*). What staging is,
 * stage.c and depot.c know.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/scope.h"
#include "config/places.h"
#include "digest/digest.h"
#include "policy/reason.h"
#include "privileges.h"
#include "proto/supervisor.h"
#include "roles.h"
#include "stage.h"
#include "wire/msg.h"

struct stager {
	struct depot depot;
	char store[PLACES_PATH_MAX + 16];
};

/* Opens the store and gives up everything but it. */
static int enclose(struct stager *s, struct err *e)
{
	const struct confine_as as = { .uid = 0, .gid = 0, .args = { [ARG_STORE] = s->store } };
	uint32_t missing;
	int rc;

	if (mkdir(s->store, 02750) < 0 && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", s->store, strerror(errno));
	rc = confine_final(&stager_privileges, &as, &missing, e);
	umask(027); /* the store's group reads */
	if (rc == 0)
		rc = depot_open(AT_FDCWD, s->store, &s->depot, e);
	return rc;
}

static int on_start(void *ctx, struct msg *m, struct err *e)
{
	struct stager *s = ctx;
	struct r_start start;
	struct places p;
	struct err ignored;

	memcpy(&start, m->body, sizeof(start));
	start.root[sizeof(start.root) - 1] = start.fault[sizeof(start.fault) - 1] = '\0';
	int life_line = msg_take_fd(m, 0); /* open for ever */
	int rc = role_tie(life_line, e);
	if (rc == 0)
		rc = fault_arm(start.fault, e);
	if (rc == 0)
		rc = places_init(start.root, &p, e);
	if (rc < 0)
		return rc;
	snprintf(s->store, sizeof(s->store), "%s/%s", p.state, SKILL_STORE_NAME);
	rc = enclose(s, e);
	if (rc == 0 && depot_collect(&s->depot, &ignored) < 0)
		log_error("skills_collect", "%s", ignored.msg);
	return rc;
}

static int refuse(uint64_t req, const struct err *why, struct err *e)
{
	struct k_refused r = { .req = req, .reason = REASON_STAGING_FAILED };

	snprintf(r.text, sizeof(r.text), "%s", why->msg);
	return msg_send(SUPERVISOR_FD, K_REFUSED, &r, sizeof(r), NULL, 0, e);
}

static int on_stage(void *ctx, struct msg *m, struct err *e)
{
	struct stager *s = ctx;
	struct k_stage in;
	struct k_staged out;
	struct err why;

	memcpy(&in, m->body, sizeof(in));
	autoclose int fd = msg_take_fd(m, 0);
	if (stage_stream(&s->depot, fd, &out, &why) < 0) {
		log_info("skill_refused", "error=\"%s\"", why.msg);
		return refuse(in.req, &why, e);
	}
	log_info("skill_staged", "slug=%s files=%llu bytes=%llu", out.slug,
		 (unsigned long long)out.files, (unsigned long long)out.bytes);
	out.req = in.req;
	return msg_send(SUPERVISOR_FD, K_STAGED, &out, sizeof(out), NULL, 0, e);
}

static int on_remove(void *ctx, struct msg *m, struct err *e)
{
	struct stager *s = ctx;
	struct k_remove in;
	struct err why;

	memcpy(&in, m->body, sizeof(in));
	in.slug[K_SLUG_MAX] = '\0';
	struct k_removed out = { .req = in.req };
	if (depot_remove(&s->depot, in.slug, in.has_digest ? in.digest : NULL, &why) < 0)
		return refuse(in.req, &why, e);
	log_info("skill_removed", "slug=%s", in.slug);
	if (depot_collect(&s->depot, &why) < 0)
		log_error("skills_collect", "%s", why.msg);
	return msg_send(SUPERVISOR_FD, K_REMOVED, &out, sizeof(out), NULL, 0, e);
}

enum { FRESH = 1 << 0, SERVING = 1 << 1 };

static const struct msg_permit permits[] = {
	{ R_START, FRESH, sizeof(struct r_start), sizeof(struct r_start), 1, 1, on_start },
	{ K_STAGE, SERVING, sizeof(struct k_stage), sizeof(struct k_stage), 1, 1, on_stage },
	{ K_REMOVE, SERVING, sizeof(struct k_remove), sizeof(struct k_remove), 0, 0, on_remove },
};

static int receive(struct stager *s, struct msg *m, uint32_t state, struct err *e)
{
	int rc = msg_recv(SUPERVISOR_FD, m, e);

	if (rc == 0)
		return err_set(e, EPIPE, "the keeper is gone");
	return rc < 0 ? rc : msg_dispatch(permits, ARRAY_SIZE(permits), state, s, m, e);
}

int stager_main(void)
{
	static struct stager stager;
	static struct msg msg;
	struct err e;

	log_open("cordon-skills-stager");
	int rc = confine_early(&stager_privileges, &e);
	if (rc == 0)
		rc = receive(&stager, &msg, FRESH, &e);
	if (rc == 0)
		rc = msg_send(SUPERVISOR_FD, R_READY, NULL, 0, NULL, 0, &e);
	while (rc == 0)
		rc = receive(&stager, &msg, SERVING, &e);
	if (e.code != EPIPE)
		log_error("stager", "%s", e.msg);
	return 1;
}

/* --- Without a daemon */

static int once_open(struct stager *s, const char *store, struct err *e)
{
	int rc = confine_early(&stager_privileges, e);

	log_open("cordon-skills-stager");
	if (rc == 0 && (size_t)snprintf(s->store, sizeof(s->store), "%s", store) >= sizeof(s->store))
		rc = err_set(e, ENAMETOOLONG, "path too long");
	return rc < 0 ? rc : enclose(s, e);
}

/* The error alone, for the one who called: it comes with a status and no JSON. */
static int once_failed(const struct err *e)
{
	printf("%s\n", e->msg);
	return 1;
}

int once_stage(const char *store)
{
	static struct stager stager;
	struct k_staged out;
	char hex[DIGEST_HEX_MAX];
	struct err e;

	if (once_open(&stager, store, &e) < 0 ||
	    stage_stream(&stager.depot, STDIN_FILENO, &out, &e) < 0)
		return once_failed(&e);
	digest_hex(out.digest, sizeof(out.digest), hex);
	printf("{\"slug\":\"%s\",\"digest\":\"sha256:%s\",\"files\":%llu,\"links\":%llu,"
	       "\"bytes\":%llu,\"requiresExecution\":%s,\"frontMatterLine\":%u,"
	       "\"frontMatterFault\":\"%s\"}\n",
	       out.slug, hex, (unsigned long long)out.files, (unsigned long long)out.links,
	       (unsigned long long)out.bytes, out.requires_execution ? "true" : "false",
	       out.front_matter_line, out.front_matter_fault);
	return 0;
}

int once_remove(const char *store, const char *slug, const char *digest_or_null)
{
	static struct stager stager;
	uint8_t digest[SKILL_SHA];
	struct err e;

	if (digest_or_null && digest_unhex(digest_or_null, digest, sizeof(digest)) < 0) {
		err_set(&e, EINVAL, "not a digest");
		return once_failed(&e);
	}
	if (once_open(&stager, store, &e) < 0 ||
	    depot_remove(&stager.depot, slug, digest_or_null ? digest : NULL, &e) < 0)
		return once_failed(&e);
	if (depot_collect(&stager.depot, &e) < 0)
		log_error("skills_collect", "%s", e.msg);
	printf("{}\n");
	return 0;
}
