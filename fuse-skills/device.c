/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two things libfuse 3.14 does not do are done in its io hooks. It would read
 * and answer on one descriptor: each thread's key says which clone is its own.
 * It never sends FUSE_PARALLEL_DIROPS although asked: the bit is set in the
 * answer to FUSE_INIT as that passes by.
 */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"

enum {
	REQUEST_MAX = 72 * 1024, /* the longest that is read: a large extended attribute, refused */
	WRITE_MAX = 4096,	 /* nothing is ever written */
	READ_PAGES = SERVE_READ_MAX / 4096,
	BACKGROUND = 64, /* read-ahead requests in flight */
};

/* The made-up FUSE_INIT of a successor; its answer goes nowhere. */
static const uint64_t made_up = ~0ull - 1;

struct device_thread {
	struct device *device;
	int clone;
	pthread_t thread;
	struct serve_desk desk;
	_Atomic uint64_t busy_since_ms; /* 0: idle */
	uint8_t *request;		/* REQUEST_MAX */
};

struct device {
	struct fuse_session *session;
	struct serve *serve;
	_Atomic uint64_t init_unique; /* of the FUSE_INIT in hand, 0: none */
	unsigned nthreads;	      /* the last one is the caller's own, for notices */
	struct device_thread threads[DEVICE_THREADS_MAX + 1];
};

/* The thread that a session's hook runs on. */
static struct device_thread *self(const struct serve *s)
{
	struct serve_desk *desk = pthread_getspecific(s->desk);

	return (struct device_thread *)((char *)desk - offsetof(struct device_thread, desk));
}

/* --- Clones */

static int clone_device(int original, struct err *e)
{
	autoclose int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	uint32_t source = (uint32_t)original;

	if (fd < 0)
		return err_set(e, errno, "open '/dev/fuse': %s", strerror(errno));
	if (ioctl(fd, FUSE_DEV_IOC_CLONE, &source) < 0)
		return err_set(e, errno, "clone the FUSE descriptor: %s", strerror(errno));
	return take_fd(&fd);
}

int device_open(int original, unsigned threads, struct device **ret, struct err *e)
{
	struct device *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(e, ENOMEM, "device: out of memory");
	d->nthreads = threads < DEVICE_THREADS_MAX ? threads : DEVICE_THREADS_MAX;
	for (unsigned i = 0; i <= d->nthreads; i++) {
		struct device_thread *t = &d->threads[i];
		t->device = d;
		t->request = malloc(REQUEST_MAX);
		t->desk.buffer = malloc(SERVE_BUFFER);
		t->clone = clone_device(original, e);
		if (t->clone < 0)
			return t->clone; /* the process ends with this */
		if (!t->request || !t->desk.buffer)
			return err_set(e, ENOMEM, "device: out of memory");
	}
	*ret = d;
	return 0;
}

/* --- The session's io */

static void adjust_init(struct device *d, struct iovec *iov, int count)
{
	struct fuse_init_out *out = iov[1].iov_base;

	atomic_store(&d->init_unique, 0);
	if (count < 2 || iov[1].iov_len < offsetof(struct fuse_init_out, unused))
		return;
	out->flags |= FUSE_PARALLEL_DIROPS;
	out->max_write = WRITE_MAX;
	if (out->flags & FUSE_MAX_PAGES)
		out->max_pages = READ_PAGES;
}

static ssize_t io_write(int fd, struct iovec *iov, int count, void *userdata)
{
	struct device_thread *t = self(userdata);
	const struct fuse_out_header *head = iov[0].iov_base;

	(void)fd;
	if (head->unique == made_up) {
		ssize_t total = 0;
		for (int i = 0; i < count; i++)
			total += (ssize_t)iov[i].iov_len;
		return total;
	}
	if (head->unique != 0 && head->unique == atomic_load(&t->device->init_unique) && !head->error)
		adjust_init(t->device, iov, count);
	return writev(t->clone, iov, count);
}

/* Requests are read by the threads themselves. */
static ssize_t io_read(int fd, void *buf, size_t len, void *userdata)
{
	(void)fd;
	(void)buf;
	(void)len;
	(void)userdata;
	errno = ENOSYS;
	return -1;
}

/* --- Requests */

static void process(struct device_thread *t, size_t len)
{
	const struct fuse_buf buf = { .size = len, .mem = t->request, .fd = -1 };

	atomic_store(&t->busy_since_ms, clock_monotonic_ms());
	fuse_session_process_buf(t->device->session, &buf);
	atomic_store(&t->busy_since_ms, 0);
}

/* One request, or 0 where it was taken back, or -errno. */
static ssize_t receive(struct device_thread *t)
{
	ssize_t n = read(t->clone, t->request, REQUEST_MAX);

	if (n < 0)
		return errno == EINTR || errno == EAGAIN || errno == ENOENT ? 0 : -errno;
	return (size_t)n < sizeof(struct fuse_in_header) ? -EPROTO : n;
}

static void *run(void *arg)
{
	struct device_thread *t = arg;
	ssize_t n;

	pthread_setspecific(t->device->serve->desk, &t->desk);
	while ((n = receive(t)) >= 0)
		if (n > 0)
			process(t, (size_t)n);
	if (n == -ENODEV) /* the last mount is gone */
		_exit(0);
	log_error("device", "read: %s", strerror((int)-n));
	_exit(1);
}

/* --- Start */

/* What the kernel opened the conversation with, so that a successor can be told the same. */
static int keep_init(struct state *s, const uint8_t *request, size_t len, struct err *e)
{
	if (len > STATE_INIT_LEN)
		return err_set(e, EPROTO, "a FUSE_INIT of %zu bytes", len);
	memcpy(s->init, request, len);
	return 0;
}

static int take_init(struct device *d, struct device_thread *t, struct err *e)
{
	const struct fuse_in_header *head = (const void *)t->request;
	ssize_t n;

	do
		n = receive(t);
	while (n == 0);
	if (n < 0)
		return err_set(e, (int)-n, "read FUSE_INIT: %s", strerror((int)-n));
	if (head->opcode != FUSE_INIT)
		return err_set(e, EPROTO, "opcode %u where FUSE_INIT was due", head->opcode);
	int rc = keep_init(d->serve->state, t->request, (size_t)n, e);
	if (rc < 0)
		return rc;
	atomic_store(&d->init_unique, head->unique);
	process(t, (size_t)n);
	if (atomic_load(&d->init_unique) != 0)
		return err_set(e, EPROTO, "FUSE_INIT was not answered");
	atomic_store(&d->serve->state->init_len, (uint32_t)n);
	return 0;
}

static void repeat_init(struct device *d, struct device_thread *t)
{
	struct fuse_in_header *head = (void *)t->request;
	size_t len = atomic_load(&d->serve->state->init_len);

	memcpy(t->request, d->serve->state->init, len);
	head->unique = made_up;
	process(t, len);
}

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
	static const unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_READDIRPLUS |
				       FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS |
				       FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT;

	(void)userdata;
	conn->want = conn->capable & wanted;
	conn->max_background = BACKGROUND;
	conn->congestion_threshold = BACKGROUND;
}

static int open_session(struct device *d, struct err *e)
{
	static const struct fuse_custom_io io = { .writev = io_write, .read = io_read };
	char *argv[] = { (char *)(uintptr_t)"cordon-skills", NULL };
	struct fuse_args args = { .argc = 1, .argv = argv };
	struct fuse_lowlevel_ops ops = serve_ops;
	int own = fcntl(d->threads[d->nthreads].clone, F_DUPFD_CLOEXEC, 3);

	ops.init = on_init;
	d->session = own < 0 ? NULL : fuse_session_new(&args, &ops, sizeof(ops), d->serve);
	if (!d->session || fuse_session_custom_io(d->session, &io, own) != 0)
		return err_set(e, EIO, "libfuse refuses a session");
	return 0;
}

int device_start(struct device *d, struct serve *serve, struct err *e)
{
	struct device_thread *own = &d->threads[d->nthreads];
	int rc;

	d->serve = serve;
	rc = open_session(d, e);
	if (rc < 0)
		return rc;
	pthread_setspecific(serve->desk, &own->desk);
	if (atomic_load(&serve->state->init_len) != 0)
		repeat_init(d, own);
	else if ((rc = take_init(d, own, e)) < 0)
		return rc;
	for (unsigned i = 0; i < d->nthreads; i++) {
		rc = pthread_create(&d->threads[i].thread, NULL, run, &d->threads[i]);
		if (rc != 0)
			return err_set(e, rc, "thread: %s", strerror(rc));
	}
	return 0;
}

uint64_t device_busy_ms(const struct device *d)
{
	uint64_t now = clock_monotonic_ms(), oldest = now;

	for (unsigned i = 0; i < d->nthreads; i++) {
		uint64_t since = atomic_load(&d->threads[i].busy_since_ms);
		if (since != 0 && since < oldest)
			oldest = since;
	}
	return now - oldest;
}

void device_forget(struct device *d, uint64_t parent, const char *name)
{
	fuse_lowlevel_notify_inval_entry(d->session, parent, name, strlen(name));
}
