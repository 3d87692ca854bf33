/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_AUDIT_COPY_H
#define CORDON_AUDIT_COPY_H

/*
 * A ledger's database as somebody brought it: one file, and its log (-wal)
 * where one lies beside it. SQLite reads them through two descriptors opened
 * here and can open, make, lock, change or remove nothing else, so a copy is
 * left as it was, evidence included, and no name is looked up once a program
 * has confined itself.
 */
#include <stdbool.h>

#include "base/err.h"
#include "base/scope.h"

struct sqlite3;
struct audit_copy;

/* Opens the files: regular ones, the log never through a link. */
int audit_copy_open(const char *path, struct audit_copy **ret, struct err *e);

/*
 * A connection to what the files hold at this moment, made safe against their
 * content. Close it before the copy is freed, and before the next one is made.
 */
int audit_copy_connect(struct audit_copy *c, struct sqlite3 **ret, struct err *e);

/*
 * Was there a writer since the connection was made, so that what was read may
 * be a mixture of two states? (Rows appended to the log are none.)
 */
bool audit_copy_is_stale(const struct audit_copy *c);

void audit_copy_free(struct audit_copy *c);
DEFINE_CLEANUP(audit_copy)

#endif
