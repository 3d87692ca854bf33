/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_PEER_H
#define CORDON_BROKER_PEER_H

/*
 * Who is at the other end of a connection, and what it may do (F1). The kernel
 * says who (SO_PEERCRED, SO_PEERGROUPS at connect time); rules say what:
 *
 *   peers = WHO ROLES ORGS USERS; ...
 *     WHO    uid:N | gid:N | user:NAME | group:NAME
 *     ROLES  issuer,runner,auditor,admin
 *     ORGS   names separated by commas, or *
 *     USERS  names separated by commas, or self (its own), or *
 *
 * The first rule that fits counts. uid 0 has every role and may name anyone;
 * last stands the rule of the configured group: runner, local, self.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
	PEER_RULES_MAX = 32,
	PEER_NAME_MAX = 64,
};

enum role {
	ROLE_ISSUER = 1u << 0,
	ROLE_RUNNER = 1u << 1,
	ROLE_AUDITOR = 1u << 2,
	ROLE_ADMIN = 1u << 3,
	ROLES_ALL = ROLE_ISSUER | ROLE_RUNNER | ROLE_AUDITOR | ROLE_ADMIN,
};

struct peer_rule {
	bool is_group;
	uint32_t id;
	unsigned roles;
	const char *orgs, *users; /* comma-separated, into peer_rules.text */
};

struct peer_rules {
	char *text;
	struct peer_rule rules[PEER_RULES_MAX];
	size_t n;
};

struct peer {
	uid_t uid;
	pid_t pid;
	unsigned roles;
	char *orgs, *users; /* what its rule let it name when it connected; uid 0: anything */
	char name[PEER_NAME_MAX]; /* its account's, or the uid in decimal */
};

/* Parses @text and appends the rule of @group (skipped where no such group exists). */
int peer_rules_parse(const char *text, const char *group, struct peer_rules *ret, struct err *e);
void peer_rules_done(struct peer_rules *r);

/* Who is at the other end of @fd. A peer no rule fits has no role. */
int peer_of_socket(int fd, const struct peer_rules *rules, struct peer *ret, struct err *e);
void peer_done(struct peer *p);

/* May @p act as, or ask about, @user of @org? @user NULL: about all of @org. */
bool peer_may_name(const struct peer *p, const char *org, const char *user);

#endif
