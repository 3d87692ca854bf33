/* SPDX-License-Identifier: Apache-2.0 */
/*
 * S2 and S3: carriers against vectors and peers written by another hand
 * (tests/lib/carrier.py; the first vector was made with Node), every kind of
 * change with its exact failure.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "digest/base64.h"
#include "digest/digest.h"
#include "json/json.h"
#include "session/carrier.h"

#define IAT 1700000000000u
#define EXP 1700000900000u
#define GOLDEN \
	"v1.eyJvcmdJZCI6Im9yZy0xIiwidXNlcklkIjoidXNlci0xIiwic3VyZmFjZSI6ImFnZW50X3J1biIsInJ1bkl" \
	"kIjoicnVuLTciLCJpYXQiOjE3MDAwMDAwMDAwMDAsImV4cCI6MTcwMDAwMDkwMDAwMH0." \
	"aTd3Rlv6sfpidFGv9ieJZTGgudw9uDxyCy_c_jwDPqw"
#define GOLDEN_HOSTILE \
	"v1.eyJvcmdJZCI6Ikdyw7bDn2Ug4oCoIHgiLCJ1c2VySWQiOiJxXCJcXC9cdTAwMDFcdTAwMGF_Iiwic3VyZmFj" \
	"ZSI6ImNoYXQiLCJpYXQiOjE3MDAwMDAwMDAwMDAsImV4cCI6MTcwMDAwMDkwMDAwMH0." \
	"MITyq7_Vl6xE-SOZ9azP031kDVHz2U22CmBRnvG7kPk"

static struct secret_set *secrets(const char *key)
{
	struct secret_set *set = NULL;

	assert_int_equal(secrets_from_key(1, key, strlen(key), &set, NULL), 0);
	return set;
}

static int start(void **state)
{
	*state = secrets("golden-secret");
	return 0;
}

static int stop(void **state)
{
	secrets_free(*state);
	return 0;
}

static struct session session(const char *org, const char *user, const char *surface, const char *run)
{
	struct session_claim c = { org, user, surface, run };
	struct session s;

	assert_int_equal(session_mint(&c, 0, &s, NULL), REASON_NONE);
	return s;
}

static enum reason open_at(const struct secret_set *k, const char *text, uint64_t now)
{
	struct session s;

	return carrier_open(k, text, strlen(text), now, &s, NULL);
}

/* Seals any bytes as a payload, as whoever holds the secret could. */
static enum reason open_payload(const char *payload, size_t len, uint64_t now)
{
	static char body[64 * 1024];
	static const char key[] = "golden-secret";
	struct secret_set *k = secrets(key);
	struct session s;
	uint8_t mac[DIGEST_LEN];
	size_t n = 3;

	memcpy(body, "v1.", 3);
	n += base64url_encode(payload, len, body + n);
	digest_hmac_sha256(key, strlen(key), body, n, mac);
	body[n++] = '.';
	n += base64url_encode(mac, sizeof(mac), body + n);
	enum reason r = carrier_open(k, body, n, now, &s, NULL);
	secrets_free(k);
	return r;
}

static enum reason open_json(const char *payload)
{
	return open_payload(payload, strlen(payload), IAT);
}

static void sealing_gives_the_golden_bytes(void **state)
{
	struct session plain = session("org-1", "user-1", "agent_run", "run-7");
	struct session hostile = session("Größe \u2028 x", "q\"\\/\x01\n\x7f", "chat", NULL);
	char out[CARRIER_MAX];
	size_t len;

	assert_int_equal(carrier_seal(*state, &plain, IAT, EXP - IAT, out, &len), REASON_NONE);
	assert_string_equal(out, GOLDEN);
	assert_int_equal(len, strlen(GOLDEN));
	assert_int_equal(carrier_seal(*state, &hostile, IAT, EXP - IAT, out, &len), REASON_NONE);
	assert_string_equal(out, GOLDEN_HOSTILE);
}

static void opening_gives_back_what_was_sealed(void **state)
{
	struct session s;
	uint64_t exp = 0;

	assert_int_equal(carrier_open(*state, GOLDEN, strlen(GOLDEN), IAT, &s, &exp), REASON_NONE);
	assert_string_equal(s.org_id, "org-1");
	assert_string_equal(s.user_id, "user-1");
	assert_string_equal(s.run_id, "run-7");
	assert_int_equal(s.surface, SURFACE_AGENT_RUN);
	assert_int_equal(exp, EXP);
	assert_int_equal(carrier_open(*state, GOLDEN_HOSTILE, strlen(GOLDEN_HOSTILE), IAT, &s, NULL),
			 REASON_NONE);
	assert_string_equal(s.user_id, "q\"\\/\x01\n\x7f");
	assert_string_equal(s.run_id, "");
}

static void a_carrier_expires_to_the_millisecond(void **state)
{
	assert_int_equal(open_at(*state, GOLDEN, EXP - 1), REASON_NONE);
	assert_int_equal(open_at(*state, GOLDEN, EXP), REASON_CARRIER_EXPIRED);
	assert_int_equal(open_at(*state, GOLDEN, UINT64_MAX), REASON_CARRIER_EXPIRED);
	assert_int_equal(open_at(*state, GOLDEN, 0), REASON_NONE);
}

/* Every bit of every byte: never accepted, and the failure is the exact one. */
static void every_single_bit_change_is_refused(void **state)
{
	char text[] = GOLDEN;

	for (size_t bit = 0; bit < 8 * (sizeof(text) - 1); bit++) {
		size_t i = bit / 8;
		text[i] ^= (char)(1 << bit % 8);
		struct session s;
		enum reason r = carrier_open(*state, text, sizeof(text) - 1, IAT, &s, NULL);
		bool shape = i < 3 || GOLDEN[i] == '.' || text[i] == '.';
		assert_int_equal(r, shape ? REASON_CARRIER_MALFORMED : REASON_CARRIER_BAD_SIGNATURE);
		text[i] = GOLDEN[i];
	}
}

static void every_truncation_and_addition_is_refused(void **state)
{
	char text[sizeof(GOLDEN) + 8];
	size_t last_dot = (size_t)(strrchr(GOLDEN, '.') - GOLDEN);
	static const char *const tails[] = { "=", "==", "A", "\n", " ", "\r\n", "-" };
	struct session s;

	assert_int_equal(open_at(*state, GOLDEN, IAT), REASON_NONE); /* the control */
	for (size_t n = 0; n < sizeof(GOLDEN) - 1; n++)
		assert_int_equal(carrier_open(*state, GOLDEN, n, IAT, &s, NULL),
				 n <= last_dot ? REASON_CARRIER_MALFORMED :
						 REASON_CARRIER_BAD_SIGNATURE);
	for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
		snprintf(text, sizeof(text), "%s%s", GOLDEN, tails[i]);
		assert_int_equal(open_at(*state, text, IAT), REASON_CARRIER_BAD_SIGNATURE);
	}
	snprintf(text, sizeof(text), "%s.", GOLDEN);
	assert_int_equal(open_at(*state, text, IAT), REASON_CARRIER_MALFORMED);
	snprintf(text, sizeof(text), " %s", GOLDEN);
	assert_int_equal(open_at(*state, text, IAT), REASON_CARRIER_MALFORMED);
	assert_int_equal(carrier_open(*state, GOLDEN, sizeof(GOLDEN), IAT, &s, NULL),
			 REASON_CARRIER_BAD_SIGNATURE); /* with its NUL */
}

/* --- Time: instructions are counted, which no load of the host changes */

static bool open_it(const struct secret_set *k, const char *text)
{
	return open_at(k, text, IAT) == REASON_NONE;
}

/* The control: a comparison that stops where the texts differ. */
static bool compare_it(const struct secret_set *k, const char *text)
{
	const volatile char *a = text, *b = GOLDEN;

	(void)k;
	for (size_t i = 0; i < sizeof(GOLDEN); i++)
		if (a[i] != b[i])
			return false;
	return true;
}

/* Instructions of @fn on @text in a process of its own, stepped one by one. */
static long steps_of(bool (*fn)(const struct secret_set *, const char *), const struct secret_set *k,
		     const char *text)
{
	int status;
	long steps = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(9);
		kill(getpid(), SIGSTOP);
		bool is_good = fn(k, text);
		kill(getpid(), SIGSTOP);
		_exit(is_good);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	do {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		steps++;
	} while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0); /* what was changed did not open */
	return steps;
}

static void where_a_mac_differs_takes_the_same_steps(void **state)
{
	size_t mac = (size_t)(strrchr(GOLDEN, '.') + 1 - GOLDEN), last = sizeof(GOLDEN) - 2;
	const size_t at[] = { mac, mac + 1, mac + 20, last };
	long steps[ARRAY_SIZE(at)], control[ARRAY_SIZE(at)];

	assert_int_equal(open_at(*state, GOLDEN, IAT), REASON_NONE); /* libcrypto is loaded and warm */
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		char text[] = GOLDEN;
		text[at[i]] = text[at[i]] == 'A' ? 'B' : 'A';
		steps[i] = steps_of(open_it, *state, text);
		control[i] = steps_of(compare_it, *state, text);
	}
	assert_true(steps[0] > 1000); /* a MAC was computed */
	for (size_t i = 1; i < ARRAY_SIZE(at); i++) {
		assert_true(control[i] > control[i - 1]); /* the method sees a difference */
		assert_int_equal(steps[i], steps[0]);
	}
}

static void parts_in_another_order_are_refused(void **state)
{
	const char *body = GOLDEN + 3, *mac = strrchr(GOLDEN, '.') + 1;
	int n = (int)(mac - 1 - body);
	char text[sizeof(GOLDEN) + 8];

	snprintf(text, sizeof(text), "v1.%s.%.*s", mac, n, body);
	assert_int_equal(open_at(*state, text, IAT), REASON_CARRIER_BAD_SIGNATURE);
	snprintf(text, sizeof(text), "%.*s.v1.%s", n, body, mac);
	assert_int_equal(open_at(*state, text, IAT), REASON_CARRIER_MALFORMED);
	snprintf(text, sizeof(text), "v2.%.*s.%s", n, body, mac);
	assert_int_equal(open_at(*state, text, IAT), REASON_CARRIER_MALFORMED);
	snprintf(text, sizeof(text), "v1.%.*s", n, body);
	assert_int_equal(open_at(*state, text, IAT), REASON_CARRIER_MALFORMED);
	assert_int_equal(open_at(*state, "v1..", IAT), REASON_CARRIER_BAD_SIGNATURE);
	assert_int_equal(open_at(*state, "", IAT), REASON_CARRIER_MALFORMED);
	assert_int_equal(open_at(*state, "v1.", IAT), REASON_CARRIER_MALFORMED);
}

#define ID "\"orgId\":\"o\",\"userId\":\"u\",\"surface\":\"chat\""
#define TIMES "\"iat\":1700000000000,\"exp\":1700000900000"

static void a_signed_payload_that_is_no_carrier_is_malformed(void **state)
{
	static const char *const bad[] = {
		"", "{}x", "[]", "null", "1", "\"x\"", "{", "}", "{" ID, "{" ID "," TIMES,
		"{" ID "," TIMES "}}", "{" ID "," TIMES "} ", " {" ID "," TIMES "}", "{" ID "," TIMES "}\n",
		"{" ID ", " TIMES "}", "{" ID "," TIMES ",}", "{," ID "," TIMES "}",
		"\xef\xbb\xbf{" ID "," TIMES "}",
		/* duplicate, unknown, re-ordered and escaped-into-another keys */
		"{" ID "," TIMES ",\"exp\":1800000000000}", "{" ID ",\"orgId\":\"p\"," TIMES "}",
		"{" ID ",\"role\":\"admin\"," TIMES "}", "{\"userId\":\"u\",\"orgId\":\"o\",\"surface\":\"chat\"," TIMES "}",
		"{" TIMES "," ID "}", "{" ID ",\"exp\":1700000900000,\"iat\":1700000000000}",
		"{" ID ",\"ex\\u0070\":1," TIMES "}", "{" ID ",\"OrgId\":\"p\"," TIMES "}",
		/* no JSON */
		"{" ID ",\"iat\":1,\"exp\":NaN}", "{" ID ",\"iat\":1,\"exp\":Infinity}",
		"{" ID ",\"iat\":1,\"exp\":01700000900000}", "{" ID ",\"iat\":1,\"exp\":+1700000900000}",
		"{" ID ",\"iat\":1,\"exp\":0x18BCFE56800}", "{" ID ",\"iat\":1,\"exp\":1.}",
		"{" ID ",\"iat\":1,\"exp\":}", "{" ID ",\"iat\":1,\"exp\":[1,}", "{'orgId':'o'," TIMES "}",
		/* identity */
		"{\"orgId\":\"\",\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"o\",\"userId\":\" \\u00a0\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"o\",\"userId\":\"u\",\"surface\":\"Chat\"," TIMES "}",
		"{\"orgId\":1,\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":null,\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":[\"o\"],\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}", "{\"orgId\":\"o\",\"userId\":\"u\"," TIMES "}",
		"{" ID ",\"runId\":7," TIMES "}", "{" ID ",\"runId\":null," TIMES "}",
		"{" ID ",\"exp\":1700000900000}", "{" ID ",\"iat\":\"x\",\"exp\":1700000900000}",
		/* text */
		"{\"orgId\":\"o\\u0000\",\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"\\ud800\",\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"\\udc00\",\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"\\ud800\\u0041\",\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"\xff\",\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"\xed\xa0\x80\",\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"a\nb\",\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"\\x41\",\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"\\u12\",\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
		"{\"orgId\":\"o,\"userId\":\"u\",\"surface\":\"chat\"," TIMES "}",
	};

	(void)state;
	assert_int_equal(open_json("{" ID "," TIMES "}"), REASON_NONE); /* the control */
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (open_json(bad[i]) != REASON_CARRIER_MALFORMED)
			fail_msg("%s: %s", bad[i], reason_code(open_json(bad[i])));
	assert_int_equal(open_payload("{" ID "," TIMES "}", sizeof("{" ID "," TIMES "}"), IAT),
			 REASON_CARRIER_MALFORMED); /* with a NUL */
}

static void an_expiry_that_is_no_time_is_expired(void **state)
{
	static const char *const bad[] = {
		"-1", "-1700000900000", "0", "1699999999999", "1700000000000", "\"1700000900000\"", "null",
		"true", "{}", "[1700000900000]", "{\"a\":[1,{\"b\":null}]}", "1e400", "1e308", "1.7e12",
		"1700000900000.5", "9007199254740992", "99999999999999999999999999", "-0", "\"never\"",
	};
	char json[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(json, sizeof(json), "{" ID ",\"iat\":1700000000000,\"exp\":%s}", bad[i]);
		if (open_json(json) != REASON_CARRIER_EXPIRED)
			fail_msg("%s: %s", bad[i], reason_code(open_json(json)));
	}
	assert_int_equal(open_json("{" ID ",\"iat\":1700000000000}"), REASON_CARRIER_EXPIRED);
	assert_int_equal(open_json("{" ID ",\"iat\":1,\"exp\":9007199254740991}"), REASON_NONE);
}

/* The order of S3: what is wrong first is what is said. */
static void checks_come_in_the_order_of_the_contract(void **state)
{
	static struct session s;
	struct secret_set *other = secrets("another-secret");

	assert_int_equal(carrier_open(NULL, "garbage", 7, IAT, &s, NULL), REASON_CARRIER_NO_SECRET);
	assert_int_equal(open_at(other, "v1.x", EXP), REASON_CARRIER_MALFORMED);
	assert_int_equal(open_at(other, GOLDEN, EXP), REASON_CARRIER_BAD_SIGNATURE);
	/* JSON before expiry, expiry before identity */
	assert_int_equal(open_json("{" ID ",\"zzz\":1,\"iat\":1,\"exp\":1}"), REASON_CARRIER_MALFORMED);
	assert_int_equal(open_json("{\"orgId\":\"\",\"userId\":\"\",\"surface\":\"x\",\"iat\":1,\"exp\":1}"),
			 REASON_CARRIER_EXPIRED);
	assert_int_equal(open_json("{}"), REASON_CARRIER_EXPIRED);
	secrets_free(other);
	(void)state;
}

static void identity_is_trimmed_again_when_opened(void **state)
{
	struct session s;
	struct secret_set *k = *state;
	static const char body_json[] = "{\"orgId\":\" o \",\"userId\":\"\\ufeffu\\n\",\"surface\":\"chat\","
					"\"runId\":\"  \"," TIMES "}";
	char text[1024] = "v1.";
	uint8_t mac[DIGEST_LEN];
	size_t n = 3 + base64url_encode(body_json, strlen(body_json), text + 3);

	digest_hmac_sha256("golden-secret", 13, text, n, mac);
	text[n] = '.';
	base64url_encode(mac, sizeof(mac), text + n + 1);
	assert_int_equal(carrier_open(k, text, strlen(text), IAT, &s, NULL), REASON_NONE);
	assert_string_equal(s.org_id, "o");
	assert_string_equal(s.user_id, "u");
	assert_string_equal(s.run_id, "");
}

static void without_a_secret_nothing_is_sealed(void **state)
{
	struct session s = session("o", "u", "chat", NULL);
	char out[CARRIER_MAX] = "untouched";
	size_t len = 77;

	assert_int_equal(carrier_seal(NULL, &s, IAT, 1000, out, &len), REASON_CAPABILITY_UNAVAILABLE);
	assert_int_equal(carrier_seal(*state, &s, UINT64_MAX, 1000, out, &len),
			 REASON_CAPABILITY_UNAVAILABLE);
	assert_string_equal(out, "untouched");
	assert_int_equal(len, 77);
}

static void the_longest_and_most_escaped_session_fits(void **state)
{
	char field[SESSION_FIELD_MAX + 1], out[CARRIER_MAX];
	struct session s, back;
	size_t len;

	memset(field, '\x01', sizeof(field));
	field[SESSION_FIELD_MAX] = '\0';
	s = session(field, field, "deterministic_task", field);
	assert_int_equal(carrier_seal(*state, &s, IAT, 1000, out, &len), REASON_NONE);
	assert_true(len < CARRIER_MAX);
	assert_int_equal(carrier_open(*state, out, len, IAT, &back, NULL), REASON_NONE);
	assert_string_equal(back.run_id, field);
}

/* --- Peers: random sessions, sealed there and opened here, sealed here and opened there */

enum { ROUNDS = 300 };

static void random_field(char *out, unsigned *seed)
{
	static const char *const pieces[] = { "a", "Z", "9", "-", "ä", "\u2028", "\U0001f512", "\"", "\\",
					      "/", "\x01", "\x1f", "\n", "\t", "\x7f", "<", "\u00a0" };
	size_t at = 0;

	out[at++] = 'x'; /* keeps blanks inside */
	for (int i = rand_r(seed) % 40; i > 0; i--) {
		const char *p = pieces[(unsigned)rand_r(seed) % ARRAY_SIZE(pieces)];
		memcpy(out + at, p, strlen(p));
		at += strlen(p);
	}
	memcpy(out + at, "y", 2);
}

static json_t *as_json(const struct session *s)
{
	json_t *v = json_pack("{ssssssss}", "secret", "golden-secret", "orgId", s->org_id, "userId",
			      s->user_id, "surface", surface_name(s->surface));

	if (s->run_id[0])
		json_add_text(v, "runId", s->run_id);
	json_add_u64(v, "iat", IAT);
	json_add_u64(v, "exp", EXP);
	return v;
}

/* Writes @lines to a file and gives a stream of the peer's answers. */
static FILE *peer(const char *verb, FILE *lines)
{
	char command[256];

	assert_int_equal(fflush(lines), 0);
	snprintf(command, sizeof(command), "/usr/bin/python3 tests/lib/carrier.py %s < /proc/%d/fd/%d",
		 verb, (int)getpid(), fileno(lines));
	return popen(command, "r");
}

static void random_sessions(struct session *s)
{
	unsigned seed = 20260101;
	char f[3][512];

	for (int i = 0; i < ROUNDS; i++) {
		for (int j = 0; j < 3; j++)
			random_field(f[j], &seed);
		s[i] = session(f[0], f[1], surface_name((enum surface)(1 + i % 4)),
			       i % 3 ? f[2] : NULL);
	}
}

static void what_a_peer_seals_opens_here_byte_for_byte(void **state)
{
	static struct session s[ROUNDS];
	autofclose FILE *lines = tmpfile();
	char line[CARRIER_MAX + 2], mine[CARRIER_MAX];
	size_t len;

	random_sessions(s);
	for (int i = 0; i < ROUNDS; i++) {
		auto_json json_t *v = as_json(&s[i]);
		autofree char *text = json_dump_compact(v, NULL);
		fprintf(lines, "%s\n", text);
	}
	FILE *answers = peer("seal", lines);
	assert_non_null(answers);
	for (int i = 0; i < ROUNDS; i++) {
		struct session back;
		assert_non_null(fgets(line, sizeof(line), answers));
		line[strcspn(line, "\n")] = '\0';
		assert_int_equal(carrier_seal(*state, &s[i], IAT, EXP - IAT, mine, &len), REASON_NONE);
		assert_string_equal(mine, line);
		assert_int_equal(carrier_open(*state, line, strlen(line), IAT, &back, NULL), REASON_NONE);
		assert_string_equal(back.org_id, s[i].org_id);
		assert_string_equal(back.user_id, s[i].user_id);
		assert_string_equal(back.run_id, s[i].run_id);
		assert_int_equal(back.surface, s[i].surface);
	}
	assert_int_equal(pclose(answers), 0);
}

static void what_is_sealed_here_opens_at_a_peer(void **state)
{
	static struct session s[ROUNDS];
	autofclose FILE *lines = tmpfile();
	char line[CARRIER_MAX], mine[CARRIER_MAX];
	size_t len;

	random_sessions(s);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(carrier_seal(*state, &s[i], IAT, EXP - IAT, mine, &len), REASON_NONE);
		fprintf(lines, "{\"secret\":\"golden-secret\",\"carrier\":\"%s\"}\n", mine);
	}
	FILE *answers = peer("open", lines);
	assert_non_null(answers);
	for (int i = 0; i < ROUNDS; i++) {
		struct err e;
		assert_non_null(fgets(line, sizeof(line), answers));
		auto_json json_t *v = json_parse_strict(line, strlen(line), 2, &e);
		assert_non_null(v);
		assert_string_equal(json_string_value(json_object_get(v, "orgId")), s[i].org_id);
		assert_string_equal(json_string_value(json_object_get(v, "userId")), s[i].user_id);
		assert_int_equal(json_integer_value(json_object_get(v, "exp")), EXP);
		assert_int_equal(json_object_size(v), s[i].run_id[0] ? 6 : 5);
	}
	assert_int_equal(pclose(answers), 0);
}

/* On a stack of its own, read when it is dead. */
static void *open_refused(void *secrets)
{
	volatile char beyond[16384]; /* of what the thread's own end calls */
	char text[] = GOLDEN;
	struct session s;

	beyond[0] = beyond[sizeof(beyond) - 1] = 0;
	text[strlen(text) - 1] ^= 1;
	return (void *)(uintptr_t)carrier_open(secrets, text, strlen(text), IAT, &s, NULL);
}

/* S6: refusing a guess makes the MAC that would have been right; neither form of it is left. */
static void a_refused_guess_leaves_no_mac_behind(void **state)
{
	enum { SIZE = 1 << 20 };
	autofree char *stack = aligned_alloc(4096, SIZE);
	const char *golden = strrchr(GOLDEN, '.') + 1;
	uint8_t mac[DIGEST_LEN];
	pthread_attr_t attr;
	pthread_t thread;
	void *rc;

	assert_int_equal(base64url_decode(golden, strlen(golden), mac, sizeof(mac)), DIGEST_LEN);
	memset(stack, 0, SIZE);
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstack(&attr, stack, SIZE), 0);
	assert_int_equal(pthread_create(&thread, &attr, open_refused, *state), 0);
	assert_int_equal(pthread_join(thread, &rc), 0);
	pthread_attr_destroy(&attr);
	assert_int_equal((uintptr_t)rc, REASON_CARRIER_BAD_SIGNATURE);
	assert_non_null(memmem(stack, SIZE, golden, 42)); /* the guess: we look where it was */
	assert_null(memmem(stack, SIZE, golden, 43));
	assert_null(memmem(stack, SIZE, mac, sizeof(mac)));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)
	static const struct CMUnitTest tests[] = {
		T(sealing_gives_the_golden_bytes),
		T(opening_gives_back_what_was_sealed),
		T(a_carrier_expires_to_the_millisecond),
		T(every_single_bit_change_is_refused),
		T(every_truncation_and_addition_is_refused),
		T(where_a_mac_differs_takes_the_same_steps),
		T(parts_in_another_order_are_refused),
		T(a_signed_payload_that_is_no_carrier_is_malformed),
		T(an_expiry_that_is_no_time_is_expired),
		T(checks_come_in_the_order_of_the_contract),
		T(identity_is_trimmed_again_when_opened),
		T(without_a_secret_nothing_is_sealed),
		T(the_longest_and_most_escaped_session_fits),
		T(what_a_peer_seals_opens_here_byte_for_byte),
		T(what_is_sealed_here_opens_at_a_peer),
		T(a_refused_guess_leaves_no_mac_behind),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
