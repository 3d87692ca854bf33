/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drive: does one thing many times and says how long each took. The clock of the
 * benchmarks: no interpreter between two measurements.
 *
 *   drive [-n COUNT] [-g GAP_MS] [-c AT_A_TIME] spawn ARGV...
 *   drive [-n COUNT] [-g GAP_MS] [-c AT_A_TIME] [-s STATUS] http SOCKET METHOD TARGETS BODIES
 *
 * spawn: posix_spawn to the collected exit, output discarded. In ARGV, {w} is the
 * number of the worker (0 to AT_A_TIME - 1) and {n} a number never used twice.
 * http: one request on a connection kept open (reopened when the server closes
 * it), to the end of the answer; TARGETS and BODIES are files with one line per
 * worker, used in turn, {n} replaced in bodies. An answer counts as failed unless
 * its status is STATUS (200).
 *
 * With a gap each launch starts GAP_MS after the last one's start, or at once when
 * that took longer. Prints JSON: {"ns": [...], "launches": N, "failed": N,
 * "elapsedNs": N, "failure": "..."}; the first two launches of each worker are in
 * launches and elapsedNs only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ARGS_MAX = 256, TEXT_MAX = 64 * 1024, LINES_MAX = 64, WARM = 2, ANSWER_MAX = 1 << 20 };

struct job {
	int count, gap_ms, workers;
	const char *status;
	char **argv;
	const char *socket, *method;
	char *targets[LINES_MAX], *bodies[LINES_MAX];
	int n_targets, n_bodies;
};

/* Shared by the workers. */
struct tally {
	int failed;
	char failure[200];
	uint64_t ns[];
};

static void die(const char *what)
{
	fprintf(stderr, "drive: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* @text with {w} and {n} replaced, into @ret. */
static void fill(const char *text, int w, int n, char *ret, size_t size)
{
	size_t len = 0;

	for (; *text && len + 24 < size; text++) {
		if (strncmp(text, "{w}", 3) == 0 || strncmp(text, "{n}", 3) == 0) {
			len += (size_t)(text[1] == 'w' ? snprintf(ret + len, size - len, "%d", w)
						       : snprintf(ret + len, size - len, "%d-%d-%d",
								  (int)getpid(), w, n));
			text += 2;
		} else {
			ret[len++] = *text;
		}
	}
	ret[len] = '\0';
}

/* --- spawn */

static bool do_spawn(const struct job *j, int w, int n, char *why, size_t size)
{
	static char texts[ARGS_MAX][1024];
	static posix_spawn_file_actions_t quiet;
	static bool is_ready;
	char *argv[ARGS_MAX];
	int i, status;
	pid_t pid;

	if (!is_ready) {
		posix_spawn_file_actions_init(&quiet);
		posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
		posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
		is_ready = true;
	}
	for (i = 0; j->argv[i] && i < ARGS_MAX - 1; i++) {
		fill(j->argv[i], w, n, texts[i], sizeof(texts[i]));
		argv[i] = texts[i];
	}
	argv[i] = NULL;
	int r = posix_spawn(&pid, argv[0], &quiet, NULL, argv, environ);
	if (r != 0) {
		snprintf(why, size, "spawn: %s", strerror(r));
		return false;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0)
		snprintf(why, size, "wait status 0x%x", status);
	return status == 0;
}

/* --- http */

static int dial(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die(path);
	return fd;
}

/* Reads one answer. Its end is the announced length, else the connection's. */
static bool answer(int fd, const char *status, char *buf, size_t size, bool *ret_alive, char *why,
		   size_t why_size)
{
	size_t len = 0, want = SIZE_MAX;
	bool is_open = true;

	while (len < want && len < size - 1) {
		ssize_t n = read(fd, buf + len, size - 1 - len);
		if (n <= 0) {
			is_open = false;
			break;
		}
		len += (size_t)n;
		buf[len] = '\0';
		char *body = strstr(buf, "\r\n\r\n");
		if (want != SIZE_MAX || !body)
			continue;
		char *cl = strcasestr(buf, "\r\ncontent-length:");
		if (cl && cl < body)
			want = (size_t)(body + 4 - buf) + strtoul(cl + 17, NULL, 10);
	}
	buf[len] = '\0';
	if (len > 0 && strcasestr(buf, "\r\nconnection: close"))
		is_open = false;
	*ret_alive = is_open;
	bool is_ok = len > 12 && buf[8] == ' ' && strncmp(buf + 9, status, 3) == 0;
	if (!is_ok) {
		char *body = strstr(buf, "\r\n\r\n");
		snprintf(why, why_size, "%.12s %.150s", buf, body ? body + 4 : "");
	}
	return is_ok;
}

static bool do_http(const struct job *j, int w, int n, char *why, size_t size)
{
	static char request[2 * TEXT_MAX], body[TEXT_MAX], buf[ANSWER_MAX];
	static int fd = -1;
	bool is_alive;

	fill(j->bodies[w % j->n_bodies], w, n, body, sizeof(body));
	int len = snprintf(request, sizeof(request),
			   "%s %s HTTP/1.1\r\nHost: cordon\r\nContent-Type: application/json\r\n"
			   "Content-Length: %zu\r\n\r\n%s",
			   j->method, j->targets[w % j->n_targets], strlen(body), body);
	for (int attempt = 0; attempt < 2; attempt++) {
		bool is_fresh = fd < 0;

		if (is_fresh)
			fd = dial(j->socket);
		buf[0] = '\0';
		if (send(fd, request, (size_t)len, MSG_NOSIGNAL) == len) {
			bool ok = answer(fd, j->status, buf, sizeof(buf), &is_alive, why, size);
			if (!is_alive) {
				close(fd);
				fd = -1;
			}
			if (buf[0])
				return ok;
		} else {
			close(fd);
			fd = -1;
		}
		if (is_fresh)
			break; /* only a kept connection may have been closed under us */
	}
	snprintf(why, size, "no answer");
	return false;
}

/* --- the workers */

static void work(const struct job *j, int w, struct tally *t, int go)
{
	int each = j->count / j->workers;
	char c;

	if (read(go, &c, 1) < 0) /* all start together: the writer's end is closed */
		die("start");
	for (int n = -WARM; n < each; n++) {
		char why[200] = "";
		uint64_t start = now_ns();
		bool ok = j->argv ? do_spawn(j, w, n + WARM, why, sizeof(why))
				  : do_http(j, w, n + WARM, why, sizeof(why));
		uint64_t took = now_ns() - start;

		if (!ok && __sync_fetch_and_add(&t->failed, 1) == 0)
			memcpy(t->failure, why, sizeof(why));
		if (n >= 0)
			t->ns[w * each + n] = took;
		if (took < (uint64_t)j->gap_ms * 1000000u)
			usleep((useconds_t)((uint64_t)j->gap_ms * 1000u - took / 1000u));
	}
}

static void lines(const char *path, char **ret, int *ret_n)
{
	FILE *f = fopen(path, "re");
	size_t size = 0;
	char *line = NULL;

	if (!f)
		die(path);
	for (*ret_n = 0; *ret_n < LINES_MAX && getline(&line, &size, f) > 0;
	     line = NULL, size = 0) {
		line[strcspn(line, "\n")] = '\0';
		ret[(*ret_n)++] = line;
	}
	fclose(f);
	if (*ret_n == 0)
		die("empty file");
}

static void print(const struct job *j, const struct tally *t, uint64_t elapsed_ns)
{
	int all = j->count / j->workers * j->workers;

	printf("{\"ns\": [");
	for (int i = 0; i < all; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)t->ns[i]);
	printf("], \"launches\": %d, \"failed\": %d, \"elapsedNs\": %llu, \"failure\": \"",
	       all + WARM * j->workers, t->failed, (unsigned long long)elapsed_ns);
	for (const char *s = t->failure; *s; s++)
		putchar(*s == '"' || *s == '\\' || (unsigned char)*s < 0x20 ? '\'' : *s);
	printf("\"}\n");
}

int main(int argc, char **argv)
{
	struct job j = { .count = 100, .workers = 1, .status = "200" };
	int c, go[2];

	while ((c = getopt(argc, argv, "+n:g:c:s:")) != -1)
		switch (c) {
		case 'n':
			j.count = atoi(optarg);
			break;
		case 'g':
			j.gap_ms = atoi(optarg);
			break;
		case 'c':
			j.workers = atoi(optarg);
			break;
		case 's':
			j.status = optarg;
			break;
		default:
			return 2;
		}
	if (j.count < 1 || j.workers < 1 || j.count < j.workers || !argv[optind])
		return 2;
	if (strcmp(argv[optind], "spawn") == 0 && argv[optind + 1]) {
		j.argv = argv + optind + 1;
	} else if (strcmp(argv[optind], "http") == 0 && argc - optind == 5) {
		j.socket = argv[optind + 1];
		j.method = argv[optind + 2];
		lines(argv[optind + 3], j.targets, &j.n_targets);
		lines(argv[optind + 4], j.bodies, &j.n_bodies);
	} else {
		return 2;
	}
	struct tally *t = mmap(NULL, sizeof(*t) + sizeof(uint64_t) * (size_t)j.count,
			       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t == MAP_FAILED || pipe2(go, O_CLOEXEC) < 0)
		die("start");
	for (int w = 0; w < j.workers; w++) {
		pid_t pid = fork();
		if (pid < 0)
			die("fork");
		if (pid == 0) {
			close(go[1]);
			work(&j, w, t, go[0]);
			_exit(0);
		}
	}
	uint64_t start = now_ns();
	close(go[1]);
	for (int w = 0; w < j.workers; w++)
		wait(NULL);
	print(&j, t, now_ns() - start);
	return 0;
}
