/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-statement ENVELOPE|- KEYS [--json]: whether a statement (T3) is signed by
 * somebody the caller trusts.
 *
 * Theory of operation. One run, no privilege, no plane, no network: it reads
 * two files with the caller's rights and judges by receipt/ alone. KEYS holds
 * public keys in PEM; without one there is never a yes. `cordon receipt verify
 * --statement` runs it. Exit status: 0 valid, 1 not valid or not readable.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "json/json.h"
#include "receipt/statement.h"

enum { TRUSTED_MAX = 64, KEYS_MAX = 64 * 1024, FILE_MAX = 1 << 20 };

/* The envelope itself, or `cordon receipt show --json` with it inside. */
static int read_envelope(const char *file, char **ret, size_t *ret_len, struct err *e)
{
	autofree char *text = NULL;
	size_t len = 0;
	int rc = strcmp(file, "-") == 0 ? fd_read_all(STDIN_FILENO, FILE_MAX, &text, &len, e) :
					  fd_read_file(AT_FDCWD, file, FILE_MAX, &text, &len, e);

	if (rc < 0)
		return rc;
	auto_json json_t *v = json_parse_strict(text, len, 16, e);
	const char *inner = json_string_value(json_object_get(v, "envelope"));
	char *found = inner ? strdup(inner) : take_ptr(text);
	if (!found)
		return err_set(e, ENOMEM, "out of memory");
	*ret_len = inner ? strlen(found) : len;
	*ret = found;
	return 0;
}

/* How many keys are trusted. */
static int read_trusted(const char *file, struct ed25519_public *ret, struct err *e)
{
	autofree char *text = NULL;
	size_t len = 0;

	if (!*file)
		return err_set(e, ENOKEY, "no trust store (--key): nobody's signature counts");
	if (fd_read_file(AT_FDCWD, file, KEYS_MAX, &text, &len, e) < 0)
		return -e->code;
	int n = ed25519_public_read(text, len, ret, TRUSTED_MAX, e);
	return n < 0 ? err_wrap(e, file) : n;
}

static int verify(const char *file, const char *keys, json_t **ret, struct err *e)
{
	struct ed25519_public trusted[TRUSTED_MAX];
	autofree char *text = NULL;
	size_t len = 0;
	int n = read_trusted(keys, trusted, e);

	if (n < 0)
		return n;
	if (read_envelope(file, &text, &len, e) < 0)
		return -e->code;
	return statement_verify(text, len, trusted, (size_t)n, ret, e);
}

static void print(const json_t *v)
{
	size_t len;
	autofree char *text = v ? json_dump_compact(v, &len) : NULL;

	if (text)
		puts(text);
}

int main(int argc, char **argv)
{
	bool is_json = argc == 4 && strcmp(argv[3], "--json") == 0;
	auto_json json_t *statement = NULL;
	struct err e = { 0 };

	if (argc != 3 && !is_json) {
		fprintf(stderr, "usage: cordon-statement ENVELOPE|- KEYS.pem [--json]\n");
		return EXIT_FAILURE;
	}
	int rc = verify(argv[1], argv[2], &statement, &e);
	auto_json json_t *v = json_pack("{s:b, s:O?, s:s?}", "valid", rc == 0, "statement", statement,
					"text", rc < 0 ? e.msg : NULL);
	print(is_json ? v : statement);
	if (rc < 0)
		fprintf(stderr, "cordon: not valid: %s\n", e.msg);
	return rc < 0 || fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
