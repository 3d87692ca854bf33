/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers and their rules. Names of accounts are looked up when the rules are
 * read and when a peer connects; a peer keeps what it was granted then.
 */
#include "broker/peer.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/scope.h"

static const struct {
	const char *word;
	unsigned role;
} role_words[] = {
	{ "issuer", ROLE_ISSUER },
	{ "runner", ROLE_RUNNER },
	{ "auditor", ROLE_AUDITOR },
	{ "admin", ROLE_ADMIN },
};

static int parse_number(const char *s, uint32_t *ret)
{
	char *end;

	if (*s < '0' || *s > '9' || strlen(s) > 10)
		return -EINVAL;
	unsigned long long v = strtoull(s, &end, 10);
	if (*end || v >= UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)v;
	return 0;
}

/* -ENOENT: well formed, and nobody of that name. */
static int parse_who(const char *s, struct peer_rule *r)
{
	const char *v = strchr(s, ':');

	if (!v || !v[1])
		return -EINVAL;
	v++;
	r->is_group = *s == 'g';
	if (strncmp(s, "uid:", 4) == 0 || strncmp(s, "gid:", 4) == 0)
		return parse_number(v, &r->id);
	if (strncmp(s, "user:", 5) == 0) {
		struct passwd *pw = getpwnam(v);
		if (!pw)
			return -ENOENT;
		r->id = pw->pw_uid;
		return 0;
	}
	if (strncmp(s, "group:", 6) == 0) {
		struct group *gr = getgrnam(v);
		if (!gr)
			return -ENOENT;
		r->id = gr->gr_gid;
		return 0;
	}
	return -EINVAL;
}

static int parse_roles(char *s, unsigned *ret)
{
	char *save = NULL;

	*ret = 0;
	for (char *w = strtok_r(s, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		unsigned role = 0;
		for (size_t i = 0; i < ARRAY_SIZE(role_words); i++)
			if (strcmp(w, role_words[i].word) == 0)
				role = role_words[i].role;
		if (!role)
			return -EINVAL;
		*ret |= role;
	}
	return *ret ? 0 : -EINVAL;
}

static int parse_rule(char *text, struct peer_rules *rs, struct err *e)
{
	char *save = NULL, *part[5];
	struct peer_rule r = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(part); i++)
		part[i] = strtok_r(i ? NULL : text, " \t", &save);
	if (!part[0])
		return 0; /* nothing between two semicolons */
	if (!part[3] || part[4])
		return err_set(e, EINVAL, "peers: '%s': WHO ROLES ORGS USERS are due", part[0]);
	int rc = parse_who(part[0], &r);
	if (rc < 0)
		return err_set(e, -rc, "peers: '%s': %s", part[0],
			       rc == -ENOENT ? "nobody of that name" :
					       "neither uid:N, gid:N, user:NAME nor group:NAME");
	if (parse_roles(part[1], &r.roles) < 0)
		return err_set(e, EINVAL, "peers: '%s': unknown role", part[0]);
	r.orgs = part[2];
	r.users = part[3];
	if (rs->n == PEER_RULES_MAX)
		return err_set(e, E2BIG, "peers: more than %d rules", PEER_RULES_MAX);
	rs->rules[rs->n++] = r;
	return 0;
}

static void add_group_rule(const char *group, struct peer_rules *rs)
{
	struct group *gr = *group ? getgrnam(group) : NULL;

	if (gr && rs->n < PEER_RULES_MAX)
		rs->rules[rs->n++] = (struct peer_rule){ .is_group = true,
							 .id = gr->gr_gid,
							 .roles = ROLE_RUNNER,
							 .orgs = "local",
							 .users = "self" };
}

int peer_rules_parse(const char *text, const char *group, struct peer_rules *ret, struct err *e)
{
	struct peer_rules rs = { .text = strdup(text) };
	char *save = NULL;
	int rc = rs.text ? 0 : err_set(e, ENOMEM, "peers: out of memory");

	for (char *s = rs.text ? strtok_r(rs.text, ";", &save) : NULL; s && rc == 0;
	     s = strtok_r(NULL, ";", &save))
		rc = parse_rule(s, &rs, e);
	if (rc < 0) {
		peer_rules_done(&rs);
		return rc;
	}
	add_group_rule(group, &rs);
	*ret = rs;
	return 0;
}

void peer_rules_done(struct peer_rules *r)
{
	free(r->text);
	memset(r, 0, sizeof(*r));
}

/* --- One connection */

struct groups {
	gid_t list[256];
	size_t n;
};

static void groups_of(int fd, gid_t primary, struct groups *g)
{
	socklen_t len = sizeof(g->list);

	g->n = 0;
	/* A longer list (ERANGE) grants nothing: fail closed. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, g->list, &len) == 0)
		g->n = len / sizeof(gid_t);
	if (g->n < ARRAY_SIZE(g->list))
		g->list[g->n++] = primary;
}

static bool fits(const struct peer_rule *r, uid_t uid, const struct groups *g)
{
	if (!r->is_group)
		return r->id == uid;
	for (size_t i = 0; i < g->n; i++)
		if (g->list[i] == r->id)
			return true;
	return false;
}

static int name_of(uid_t uid, char *ret)
{
	struct passwd *pw = getpwuid(uid);

	/* A cut name could be somebody else's. */
	if (pw && pw->pw_name[0] && strlen(pw->pw_name) < PEER_NAME_MAX)
		return snprintf(ret, PEER_NAME_MAX, "%s", pw->pw_name);
	return snprintf(ret, PEER_NAME_MAX, "%u", uid);
}

int peer_of_socket(int fd, const struct peer_rules *rules, struct peer *ret, struct err *e)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	struct groups groups;

	memset(ret, 0, sizeof(*ret));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return err_set(e, errno, "peer credentials: %s", strerror(errno));
	ret->uid = cred.uid;
	ret->pid = cred.pid;
	if (cred.uid == 0) {
		ret->roles = ROLES_ALL;
		memcpy(ret->name, "root", sizeof("root"));
		return 0;
	}
	name_of(cred.uid, ret->name);
	groups_of(fd, cred.gid, &groups);
	for (size_t i = 0; i < rules->n; i++) {
		const struct peer_rule *r = &rules->rules[i];
		if (!fits(r, cred.uid, &groups))
			continue;
		ret->orgs = strdup(r->orgs);
		ret->users = strdup(r->users);
		if (!ret->orgs || !ret->users) {
			peer_done(ret);
			return err_set(e, ENOMEM, "peer: out of memory");
		}
		ret->roles = r->roles;
		return 0;
	}
	return 0;
}

void peer_done(struct peer *p)
{
	free(p->orgs);
	free(p->users);
	p->orgs = p->users = NULL;
}

static bool list_has(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strcspn(p, ",") == len && strncmp(p, name, len) == 0)
			return len > 0;
	return false;
}

bool peer_may_name(const struct peer *p, const char *org, const char *user)
{
	if (p->uid == 0)
		return true;
	if (!p->orgs || !p->users)
		return false;
	if (strcmp(p->orgs, "*") != 0 && !list_has(p->orgs, org))
		return false;
	if (strcmp(p->users, "*") == 0)
		return true;
	if (!user)
		return false;
	if (list_has(p->users, "self") && strcmp(user, p->name) == 0)
		return true;
	return strcmp(user, "self") != 0 && list_has(p->users, user);
}
