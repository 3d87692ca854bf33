/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_AUDIT_CHECKPOINT_H
#define CORDON_AUDIT_CHECKPOINT_H

/*
 * What is said about the chain outside its rows, each under the chain key:
 *
 *   checkpoint  a file outside the database: how far the chain had come. Two
 *	values: *live*, written after every commit and true as long as the host
 *	has not gone down since (its boot id is in it); *synced*, true always.
 *	So neither a lost power supply gives a false alarm nor does a commit
 *	have to wait for the disk.
 *   cut	 a row of the database: retention removed everything up to here.
 */
#include "audit/row.h"
#include "base/err.h"

struct secret;
struct secret_set;

enum {
	AUDIT_BOOT_LEN = 36,
	AUDIT_CHECKPOINT_LEN = 384, /* the file's size, always */
};

struct audit_point {
	uint64_t sequence; /* 0: before the first row, link = genesis */
	uint8_t link[DIGEST_LEN];
};

struct audit_checkpoint {
	struct audit_point live, synced;
	char boot[AUDIT_BOOT_LEN + 1];
};

/* AUDIT_CHECKPOINT_LEN bytes of text, ended by a newline. */
void audit_checkpoint_render(const struct secret *key, const struct audit_checkpoint *c,
			     char ret[AUDIT_CHECKPOINT_LEN]);

/* 0; -EINVAL: not a checkpoint; -ENOKEY: under a key that @keys lacks; -EBADMSG: changed. */
int audit_checkpoint_parse(const char *text, size_t len, const struct secret_set *keys,
			   struct audit_checkpoint *ret, struct err *e);

/* The point that must hold for a reader whose host has this boot id (NULL: another host). */
const struct audit_point *audit_checkpoint_due(const struct audit_checkpoint *c, const char *boot);

/* This host's boot id. */
int audit_boot_id(char ret[AUDIT_BOOT_LEN + 1], struct err *e);

struct audit_cut {
	struct audit_point upto; /* the last row removed */
	int64_t time_us;
	uint32_t key_version;
	uint8_t mac[DIGEST_LEN];
};

/* What cut->mac must be; reads the other members. */
void audit_cut_mac(const struct secret *key, const struct audit_cut *cut, uint8_t ret[DIGEST_LEN]);

#endif
