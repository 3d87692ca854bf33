/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_POLICY_HOST_H
#define CORDON_POLICY_HOST_H

/*
 * Names and ports: what a request is aimed at (struct target), what an
 * allowlist entry names (struct host_entry), and whether the one covers the
 * other (E11). The same function serves the check and the dial: a target holds
 * the one normalised name that both use.
 *
 * A name is ASCII letters, digits, '-' and '_' in labels of 1 to 63 bytes, at
 * most 253 in all, kept in lower case without a trailing dot. A name whose last
 * label is a number (decimal or 0x) is no name: it must be an address in its
 * canonical spelling, or it is nothing.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/address.h"

enum {
	HOST_MAX = 254,  /* with the NUL */
	HOST_TEXT_MAX = 264,  /* an entry as text: "[address]:port" or "name:port", with the NUL */
};

/* A host: a name, or (name empty) an address. */
struct host {
	char name[HOST_MAX];
	struct address address;
};

struct target {
	struct host host;
	uint16_t port;
};

/* An allowlist entry. Without a host (HOST_NOTHING) it matches nothing. */
struct host_entry {
	struct host host;
	uint16_t port; /* 0: any */
};

/*
 * One host in exactly @len bytes: a name (one trailing dot is dropped), an IPv4
 * address, or an IPv6 address, in brackets or not. No zone, no userinfo, no
 * percent escapes, no non-ASCII. False: *ret untouched.
 */
bool host_parse(const char *text, size_t len, struct host *ret);

/* 1 to 65535 in at most five decimal digits without a leading zero. */
bool host_parse_port(const char *text, size_t len, uint16_t *ret);

/*
 * HOST:PORT as a request spells it, an IPv6 address in brackets. @dflt is the
 * port where none is written; 0: it must be. False: malformed, *ret untouched.
 */
bool target_parse(const char *text, size_t len, uint16_t dflt, struct target *ret);

/*
 * HOST or HOST:PORT of an allowlist; a leading "*." is dropped. False: the entry
 * names nothing or is malformed, and *ret is an entry that matches nothing.
 */
bool host_entry_parse(const char *text, size_t len, struct host_entry *ret);

/* Names match exactly or as a dot-suffix, addresses exactly; a port where the entry has one. */
bool host_entry_matches(const struct host_entry *entry, const struct host *host, uint16_t port);

/* What both allow and nothing else. False: nothing, *ret untouched. */
bool host_entry_meet(const struct host_entry *a, const struct host_entry *b,
		     struct host_entry *ret);

/* Canonical text with its NUL; gives its length. */
size_t host_entry_format(const struct host_entry *entry, char out[static HOST_TEXT_MAX]);

/* The host alone, an IPv6 address without brackets. */
size_t host_format(const struct host *host, char out[static HOST_MAX]);

/* The host of an URI or Host field: an IPv6 address in brackets, :port unless it is @dflt. */
size_t target_format(const struct target *t, uint16_t dflt, char out[static HOST_TEXT_MAX]);

#endif
