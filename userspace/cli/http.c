/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting, sending, reading. The head's grammar is head.c's.
 */
#include "cli/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"

int http_connect(const char *socket_path, struct http *ret, struct err *e)
{
	ret->at = ret->end = 0;
	ret->left = -1;
	ret->fd = fd_dial(socket_path, SOCK_STREAM, e);
	return ret->fd < 0 ? ret->fd : 0;
}

static int send_parts(int fd, struct iovec *iov, int n, struct err *e)
{
	while (n > 0) {
		struct msghdr m = { .msg_iov = iov, .msg_iovlen = (size_t)n };
		ssize_t sent = sendmsg(fd, &m, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return err_set(e, errno, "send: %s", strerror(errno));
		while (n > 0 && (size_t)sent >= iov->iov_len) {
			sent -= (ssize_t)iov->iov_len;
			iov++, n--;
		}
		if (n > 0) {
			iov->iov_base = (char *)iov->iov_base + sent;
			iov->iov_len -= (size_t)sent;
		}
	}
	return 0;
}

int http_request(struct http *h, const char *method, const char *path, const char *type,
		 const void *body, size_t len, struct err *e)
{
	char head[HTTP_PATH_MAX + 256];
	int n = snprintf(head, sizeof(head),
			 "%s %s HTTP/1.0\r\nHost: cordon\r\nContent-Type: %s\r\n"
			 "Content-Length: %zu\r\n\r\n",
			 method, path, type ? type : "application/json", len);

	if (n >= (int)sizeof(head))
		return err_set(e, ENAMETOOLONG, "path too long");
	struct iovec iov[2] = { { head, (size_t)n }, { (void *)(uintptr_t)body, len } };
	return send_parts(h->fd, iov, len ? 2 : 1, e);
}

static ssize_t receive(int fd, void *buf, size_t max, struct err *e)
{
	ssize_t n;

	do {
		n = recv(fd, buf, max, 0);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? err_set(e, errno, "receive: %s", strerror(errno)) : n;
}

int http_read_head(struct http *h, struct err *e)
{
	for (;;) {
		int n = http_parse_head(h->buf, h->end, &h->head);
		if (n < 0)
			return err_set(e, EPROTO, "the broker's answer is malformed");
		if (n > 0) {
			h->at = (size_t)n;
			h->left = h->head.length;
			return 0;
		}
		ssize_t got = receive(h->fd, h->buf + h->end, sizeof(h->buf) - h->end, e);
		if (got < 0)
			return (int)got;
		if (got == 0)
			return err_set(e, EPIPE, "the broker hung up");
		h->end += (size_t)got;
	}
}

bool http_has_buffered(const struct http *h)
{
	return h->at < h->end;
}

ssize_t http_read(struct http *h, void *buf, size_t max, struct err *e)
{
	ssize_t n;

	if (h->left >= 0 && (int64_t)max > h->left)
		max = (size_t)h->left;
	if (max == 0)
		return 0;
	if (h->at < h->end) {
		n = (ssize_t)(h->end - h->at < max ? h->end - h->at : max);
		memcpy(buf, h->buf + h->at, (size_t)n);
		h->at += (size_t)n;
	} else {
		n = receive(h->fd, buf, max, e);
		if (n == 0 && h->left > 0)
			return err_set(e, EPIPE, "the broker hung up");
	}
	if (n > 0 && h->left >= 0)
		h->left -= n;
	return n;
}

void http_close(struct http *h)
{
	if (h->fd >= 0)
		close(take_fd(&h->fd));
}

int http_read_body(struct http *h, char **ret, size_t *ret_len, struct err *e)
{
	size_t cap = h->left >= 0 && h->left < HTTP_ANSWER_MAX ? (size_t)h->left + 1 : 16384;
	size_t len = 0;
	autofree char *buf = malloc(cap);

	for (;;) {
		if (!buf)
			return err_set(e, ENOMEM, "out of memory");
		ssize_t n = http_read(h, buf + len, cap - 1 - len, e);
		if (n < 0)
			return (int)n;
		len += (size_t)n;
		if (n == 0 && len < cap - 1)
			break;
		if (h->left == 0)
			break;
		if (len < cap - 1)
			continue;
		if (cap > HTTP_ANSWER_MAX)
			return err_set(e, EFBIG, "the answer is more than %d bytes",
				       HTTP_ANSWER_MAX);
		char *more = realloc(buf, cap *= 2);
		if (!more)
			return err_set(e, ENOMEM, "out of memory");
		buf = more;
	}
	buf[len] = '\0';
	*ret = take_ptr(buf);
	*ret_len = len;
	return 0;
}

int http_call(const char *socket_path, const char *method, const char *path, const char *body,
	      size_t len, char **ret_body, size_t *ret_len, struct err *e)
{
	struct http h;
	int rc = http_connect(socket_path, &h, e);

	if (rc == 0)
		rc = http_request(&h, method, path, NULL, body, len, e);
	/* A refusal may come before the whole body went out; the answer says more than EPIPE. */
	if (rc == 0 || rc == -EPIPE)
		rc = http_read_head(&h, e);
	if (rc == 0)
		rc = http_read_body(&h, ret_body, ret_len, e);
	http_close(&h);
	return rc < 0 ? rc : h.head.status;
}

int http_open_upload(const char *socket_path, const char *path, struct http *ret, struct err *e)
{
	char head[HTTP_PATH_MAX + 256];
	int n = snprintf(head, sizeof(head),
			 "POST %s HTTP/1.1\r\nHost: cordon\r\nConnection: close\r\n"
			 "Content-Type: application/octet-stream\r\n"
			 "Transfer-Encoding: chunked\r\n\r\n",
			 path);
	struct iovec iov = { head, (size_t)n };

	if (n >= (int)sizeof(head))
		return err_set(e, ENAMETOOLONG, "path too long");
	int rc = http_connect(socket_path, ret, e);
	return rc < 0 ? rc : send_parts(ret->fd, &iov, 1, e);
}

int http_upload(struct http *h, const void *buf, size_t len, struct err *e)
{
	char size[32], end[] = "\r\n";
	int n = snprintf(size, sizeof(size), "%zx\r\n", len);
	struct iovec iov[3] = { { size, (size_t)n }, { (void *)(uintptr_t)buf, len }, { end, 2 } };

	return send_parts(h->fd, iov, 3, e);
}

int http_add_part(char path[HTTP_PATH_MAX], const char *part, struct err *e)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789._~-";
	size_t at = strlen(path);

	if (!*part || strcmp(part, ".") == 0 || strcmp(part, "..") == 0)
		return err_set(e, EINVAL, "'%s' is no name", part);
	for (; *part; part++) {
		if (at + 4 >= HTTP_PATH_MAX)
			return err_set(e, ENAMETOOLONG, "a name is too long");
		if (strchr(plain, *part))
			path[at++] = *part;
		else
			at += (size_t)sprintf(path + at, "%%%02X", (unsigned char)*part);
	}
	path[at] = '\0';
	return 0;
}
