/* LD_PRELOAD: refuses to open, or to read, the files whose path holds REFUSED, with the error REFUSED_ERRNO.
   REFUSED_CALL says which of both: "open" or "read". REFUSED_TIMES: so many times; 0: always. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int times;

static int refused(const char *call, const char *path) {
  const char *what = getenv("REFUSED"), *which = getenv("REFUSED_CALL"), *most = getenv("REFUSED_TIMES");
  if (!what || !path || !which || strcmp(which, call) || !strstr(path, what)) return 0;
  if (most && atoi(most) && __atomic_add_fetch(&times, 1, __ATOMIC_SEQ_CST) > atoi(most)) return 0;
  errno = atoi(getenv("REFUSED_ERRNO"));
  return 1;
}

#define OPEN(name)                                                   \
  int name(const char *path, int flags, ...) {                       \
    static int (*real)(const char *, int, ...);                      \
    va_list rest;                                                    \
    va_start(rest, flags);                                           \
    int mode = va_arg(rest, int);                                    \
    va_end(rest);                                                    \
    if (refused("open", path)) return -1;                            \
    if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
    return real(path, flags, mode);                                  \
  }
OPEN(open)
OPEN(open64)

#define PREAD(name)                                                  \
  ssize_t name(int fd, void *to, size_t size, off_t at) {            \
    static ssize_t (*real)(int, void *, size_t, off_t);              \
    char link[64], path[4096];                                       \
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);             \
    ssize_t length = readlink(link, path, sizeof path - 1);          \
    path[length < 0 ? 0 : length] = 0;                               \
    if (refused("read", path)) return -1;                            \
    if (!real) real = (ssize_t (*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, #name); \
    return real(fd, to, size, at);                                   \
  }
PREAD(pread)
PREAD(pread64)
