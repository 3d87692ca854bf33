/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordond: starts the daemons of one instance, joins them by sockets, restarts
 * them, ends them.
 *
 * Theory of operation
 *
 *   cordon up --starts--> cordond --fork--> cordond (detached)
 *                            |  waits on a pipe for one struct s_result
 *
 * The detached one takes the lock, makes directories and secrets, sweeps what
 * a former life left, moves itself into <instance>/daemons, opens the two
 * listening sockets and starts ledger, worker, gateway, skills and broker,
 * each with an empty environment and descriptor 3 to here. The pipe is
 * answered when all of them said S_READY, or with the first failure.
 *
 * It runs as root from start to end, because it starts a root daemon and
 * sweeps, with the capabilities of privileges.c. It holds: the lock, the listening sockets (they outlive a broker),
 * its end of every daemon's descriptor 3, pidfds. It never holds a secret's
 * bytes, a policy, a caller's bytes. When it dies every daemon's descriptor 3
 * closes and they exit.
 *
 * Exit status: 0 up (or orderly down in the foreground), 1 failed, 2 usage,
 * 3 the rollout is off.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/scope.h"
#include "supervisor/ground.h"
#include "supervisor/life.h"
#include "supervisor/privileges.h"
#include "supervisor/sweep.h"

enum { STATUS_FAILED = 1, STATUS_USAGE = 2, STATUS_OFF = 3 };

struct arguments {
	const char *root;
	bool is_foreground;
};

static int complain(int status, const struct err *e)
{
	fprintf(stderr, "cordon: %s\n", e->msg);
	return status;
}

static int read_arguments(int argc, char **argv, struct arguments *ret)
{
	static const struct option options[] = {
		{ "root", required_argument, NULL, 'r' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	int c;

	*ret = (struct arguments){ .root = NULL };
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'r')
			ret->root = optarg;
		else if (c == 'f')
			ret->is_foreground = true;
		else if (c == 'h')
			return puts("cordond [--foreground] [--root DIR]"), -1;
		else if (c == 'v')
			return puts("cordond " VERSION), -1;
		else
			return STATUS_USAGE;
	}
	if (optind == argc)
		return 0;
	fprintf(stderr, "cordon: up takes no argument: '%s'\n", argv[optind]);
	return STATUS_USAGE;
}

/* ROOT itself is made: an empty directory starts nothing. */
static int make_root(const char *root, struct err *e)
{
	char path[PATH_MAX], cwd[PATH_MAX];

	if (!root || !*root)
		root = getenv("CORDON_ROOT");
	if (!root || !*root)
		return 0;
	if (root[0] == '/')
		return fd_mkdir_parents(root, 0755, e);
	if (!getcwd(cwd, sizeof(cwd)) ||
	    snprintf(path, sizeof(path), "%s/%s", cwd, root) >= (int)sizeof(path))
		return err_set(e, ENAMETOOLONG, "root '%s'", root);
	return fd_mkdir_parents(path, 0755, e);
}

static int check_image(const struct plane *p, struct err *e)
{
	char store[PLACES_PATH_MAX], file[PLACES_PATH_MAX + 80];

	if (!p->config.image[0])
		return err_set(e, ENOENT,
			       "no base image is pinned: run 'cordon image build --pin', or set "
			       "'image = sha256:...' in %s",
			       p->places.conf);
	places_image_store(&p->places, &p->config, store);
	snprintf(file, sizeof(file), "%s/%s.erofs", store, p->config.image + strlen("sha256:"));
	if (access(file, R_OK) < 0)
		return err_set(e, errno, "base image '%s': %s", file, strerror(errno));
	return 0;
}

/* Who am I, and may I start? Touches nothing. 0, or an exit status with its line printed. */
static int read_plane(const struct arguments *a, struct plane *p)
{
	struct err e;

	if (make_root(a->root, &e) < 0 || places_init(a->root, &p->places, &e) < 0 ||
	    places_read_config(&p->places, &p->config, &p->text, &p->text_len, &e) < 0 ||
	    fault_arm(p->config.fault, &e) < 0)
		return complain(STATUS_FAILED, &e);
	if (!places_rollout_is_on(&p->config)) {
		err_set(&e, EPERM,
			"plane_disabled: the rollout is off; set 'rollout = on' in %s (or "
			"CORDON_ROLLOUT=on)",
			p->places.conf);
		return complain(STATUS_OFF, &e);
	}
	places_instance(&p->places, p->instance);
	if (geteuid() != 0) {
		err_set(&e, EPERM, "up needs root");
		return complain(STATUS_FAILED, &e);
	}
	if (check_image(p, &e) < 0)
		return complain(STATUS_FAILED, &e);
	p->cgroup_count = cgroups_list(p->instance, p->cgroups, CGROUPS_MAX, &e);
	return p->cgroup_count < 0 ? complain(STATUS_FAILED, &e) : 0;
}

/* --- The detached half */

static int open_log(const struct plane *p, struct err *e)
{
	char path[PLACES_PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/cordond.log", p->places.logs);
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
		      0640);
	return fd < 0 ? err_set(e, errno, "log '%s': %s", path, strerror(errno)) : fd;
}

/* Standard output and error become the log; nothing of the caller's terminal stays. */
static int detach(const struct plane *p, struct err *e)
{
	autoclose int log = open_log(p, e);
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (log < 0)
		return log;
	if (null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
		return err_set(e, errno, "detach: %s", strerror(errno));
	return 0;
}

struct held {
	int lock, listen, control;
};

static int prepare(const struct plane *p, bool is_foreground, struct held *h, struct err *e)
{
	umask(022);
	h->lock = ground_lock(p, e);
	if (h->lock < 0 || ground_write_pid(h->lock, e) < 0)
		return -e->code;
	/* A newer state is refused before anything of it is touched. */
	if (ground_read_schema(p, e) < 0 || ground_make_directories(p, e) < 0 ||
	    ground_secrets(p, e) < 0)
		return -e->code;
	if (!is_foreground && detach(p, e) < 0)
		return -e->code;
	if (sweep_all(p, e) < 0 || sweep_enter_daemons(p, e) < 0 || ground_own_mounts(e) < 0)
		return -e->code;
	/* Without it the worker cannot guard a gateway slot and refuses them; tier none goes on. */
	if (ground_mount_pins(p, e) < 0)
		log_error("pins", "%s", e->msg);
	h->listen = ground_listen(p, e);
	if (h->listen < 0)
		return -e->code;
	h->control = ground_listen_control(p, e);
	return h->control < 0 ? -e->code : ground_seal_schema(p, e);
}

/* Nothing of the instance stays but its state. */
static void clear_up(const struct plane *p)
{
	struct err e;

	sweep_leave_daemons(p);
	if (sweep_all(p, &e) < 0)
		log_error("sweep", "%s", e.msg);
	unlink(p->places.socket);
	unlink(p->places.control);
	unlink(p->places.pid);
}

static void tell(int report_fd, const struct err *e)
{
	struct s_result r = { .code = e->code ? e->code : EIO };

	snprintf(r.text, sizeof(r.text), "%s", e->msg);
	if (report_fd >= 0 && write(report_fd, &r, sizeof(r)) < 0)
		log_error("report", "%s", e->msg);
}

/* Still root, with what starting the others takes. After this it cannot gain more. */
static int confine(struct err *e)
{
	uint32_t missing;

	if (confine_early(&supervisor_confinement, e) < 0)
		return -e->code;
	return confine_final(&supervisor_confinement, &(struct confine_as){ .uid = 0 }, &missing,
			     e);
}

static int supervise(struct plane *p, bool is_foreground, int report_fd)
{
	struct held h = { -1, -1, -1 };
	struct life *l = calloc(1, sizeof(*l));
	struct err e = { .code = ENOMEM, .msg = "out of memory" };
	int rc = l ? confine(&e) : -ENOMEM;

	if (rc == 0)
		rc = prepare(p, is_foreground, &h, &e);
	if (rc < 0 && h.lock < 0) { /* another one's: nothing here is ours to clear */
		tell(report_fd, &e);
		free(l);
		return rc;
	}
	if (rc == 0)
		rc = daemons_init(&l->daemons, p, h.listen, STDERR_FILENO, &e);
	if (rc == 0) {
		l->plane = p;
		l->control_fd = h.control;
		l->report_fd = report_fd;
		rc = life_run(l, &e);
		report_fd = l->report_fd;
		if (rc == 0)
			err_set(&e, ECANCELED, "stopped before it was up");
	}
	clear_up(p);
	tell(report_fd, &e);
	if (l)
		control_answer(l, CLIENT_DOWN, NULL);
	free(l);
	return rc;
}

/* The waiting half: one answer, or the death of the other. */
static int await_report(int fd)
{
	struct s_result r;
	ssize_t n;

	do {
		n = read(fd, &r, sizeof(r));
	} while (n < 0 && errno == EINTR);
	if (n != sizeof(r)) {
		fputs("cordon: cordond died while starting, see its log\n", stderr);
		return STATUS_FAILED;
	}
	if (r.code == 0)
		return 0;
	r.text[sizeof(r.text) - 1] = '\0';
	fprintf(stderr, "cordon: %s\n", r.text);
	return r.code == EALREADY ? 0 : STATUS_FAILED;
}

static int run_detached(struct plane *p)
{
	int pipefd[2];

	if (pipe2(pipefd, O_CLOEXEC) < 0) {
		perror("cordon: pipe");
		return STATUS_FAILED;
	}
	pid_t pid = fork();
	if (pid < 0) {
		perror("cordon: fork");
		return STATUS_FAILED;
	}
	if (pid > 0) {
		close(pipefd[1]);
		return await_report(pipefd[0]);
	}
	close(pipefd[0]);
	setsid();
	if (chdir("/") < 0)
		return STATUS_FAILED;
	return supervise(p, false, pipefd[1]) < 0 ? STATUS_FAILED : 0;
}

static int run_foreground(struct plane *p)
{
	int pipefd[2];

	/* The same report, so that a failure is told in the same words. */
	if (pipe2(pipefd, O_CLOEXEC | O_NONBLOCK) < 0) {
		perror("cordon: pipe");
		return STATUS_FAILED;
	}
	int rc = supervise(p, true, pipefd[1]);
	return rc < 0 ? await_report(pipefd[0]) : 0;
}

/* What the starter left open, niced, ignored or blocked is not the plane's to hold (B11). */
static void disown_starter(void)
{
	sigset_t none;

	close_range(3, ~0u, 0);
	setpriority(PRIO_PROCESS, 0, 0);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int main(int argc, char **argv)
{
	static struct plane plane;
	struct arguments a;
	int status = read_arguments(argc, argv, &a);

	disown_starter();
	log_open("cordond");
	if (status == 0)
		status = read_plane(&a, &plane);
	if (status == 0)
		status = a.is_foreground ? run_foreground(&plane) : run_detached(&plane);
	return status < 0 ? 0 : status;
}
