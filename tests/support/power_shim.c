/* Tells what a process does to its files, so that a test can say what a power cut at any moment would have left.
 *
 * Every write, truncation, sync, creation, rename and removal below POWER_SHIM_FOLDER is done, and appended to POWER_SHIM_LOG:
 * one record each, in the order in which they happened, also of several processes. Syncs are told and not done: what
 * they are worth is decided by whoever reads the log (power.py).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 65536

struct record { uint32_t kind, first, second; uint32_t pad; uint64_t inode, offset; };

static uint64_t inode_of[FDS]; /* 0: not a file of ours */
static int log_fd = -1;
static const char *folder;
static size_t folder_len;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("POWER_SHIM_LOG");
    folder = getenv("POWER_SHIM_FOLDER");
    if (path == NULL || folder == NULL) { folder = NULL; return; }
    folder = strdup(folder); /* a program may write its title over its environment */
    folder_len = strlen(folder);
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log_fd >= 0) { /* out of the way of programs that close what they do not know */
        int high = fcntl(log_fd, F_DUPFD_CLOEXEC, 900);
        if (high >= 0) { syscall(SYS_close, log_fd); log_fd = high; }
    }
}

static void tell(char kind, uint64_t inode, uint64_t offset, const void *first, size_t first_len, const void *second,
                 size_t second_len) {
    int before = errno;
    struct record head = {(uint32_t)kind, (uint32_t)first_len, (uint32_t)second_len, 0, inode, offset};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)first, first_len}, {(void *)second, second_len}};
    if (syscall(SYS_writev, log_fd, parts, 3) < 0) abort();
    errno = before;
}

static int is_ours(int fd) { return log_fd >= 0 && fd >= 0 && fd < FDS && inode_of[fd] != 0; }

/* The absolute path that a call means; 0 if it is not below our folder. */
static int absolute(const char *path, char *into) {
    if (folder == NULL || log_fd < 0) return 0;
    if (path[0] == '/') snprintf(into, 4096, "%s", path);
    else {
        char here[2048];
        if (getcwd(here, sizeof here) == NULL) return 0;
        snprintf(into, 4096, "%s/%s", here, path);
    }
    return strncmp(into, folder, folder_len) == 0;
}

static int opened(int fd, const char *path, int flags) {
    char full[4096];
    struct stat about;
    if (fd < 0 || fd >= FDS) return fd;
    inode_of[fd] = 0;
    if (!absolute(path, full) || fstat(fd, &about) != 0) return fd;
    if (S_ISDIR(about.st_mode)) { inode_of[fd] = about.st_ino; return fd; }
    if (!S_ISREG(about.st_mode)) return fd;
    inode_of[fd] = about.st_ino; /* also of what is only read: it may be synced */
    if ((flags & O_ACCMODE) == O_RDONLY) return fd;
    tell('O', about.st_ino, 0, full, strlen(full), NULL, 0);
    if (flags & O_TRUNC) tell('T', about.st_ino, 0, NULL, 0, NULL, 0);
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return opened((int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode), path, flags);
}
int open64(const char *path, int flags, ...) {
    MODE(flags)
    return opened((int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode), path, flags);
}
int openat(int at, const char *path, int flags, ...) {
    MODE(flags)
    int fd = (int)syscall(SYS_openat, at, path, flags | O_LARGEFILE, mode);
    return at == AT_FDCWD || path[0] == '/' ? opened(fd, path, flags) : fd;
}
int openat64(int at, const char *path, int flags, ...) {
    MODE(flags)
    int fd = (int)syscall(SYS_openat, at, path, flags | O_LARGEFILE, mode);
    return at == AT_FDCWD || path[0] == '/' ? opened(fd, path, flags) : fd;
}
int close(int fd) {
    if (fd == log_fd && fd >= 0) return 0;
    if (fd >= 0 && fd < FDS) inode_of[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

ssize_t write(int fd, const void *data, size_t size) {
    ssize_t done = syscall(SYS_write, fd, data, size);
    if (done > 0 && is_ours(fd)) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        tell('W', inode_of[fd], (uint64_t)(at - done), data, (size_t)done, NULL, 0);
    }
    return done;
}
static ssize_t put_at(int fd, const void *data, size_t size, off_t at) {
    ssize_t done = syscall(SYS_pwrite64, fd, data, size, at);
    if (done > 0 && is_ours(fd)) tell('W', inode_of[fd], (uint64_t)at, data, (size_t)done, NULL, 0);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return put_at(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return put_at(fd, data, size, at); }
static ssize_t put_all_at(int fd, const struct iovec *parts, int many, off_t at) {
    ssize_t done = syscall(SYS_pwritev, fd, parts, many, at, 0);
    if (!is_ours(fd)) return done;
    ssize_t left = done;
    for (int i = 0; i < many && left > 0; i++) {
        size_t size = parts[i].iov_len < (size_t)left ? parts[i].iov_len : (size_t)left;
        tell('W', inode_of[fd], (uint64_t)at, parts[i].iov_base, size, NULL, 0);
        at += (off_t)size;
        left -= (ssize_t)size;
    }
    return done;
}
ssize_t pwritev(int fd, const struct iovec *parts, int many, off_t at) { return put_all_at(fd, parts, many, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int many, off64_t at) { return put_all_at(fd, parts, many, at); }

static int cut_to(int fd, off_t size) {
    int done = (int)syscall(SYS_ftruncate, fd, size);
    if (done == 0 && is_ours(fd)) tell('T', inode_of[fd], (uint64_t)size, NULL, 0, NULL, 0);
    return done;
}
int ftruncate(int fd, off_t size) { return cut_to(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut_to(fd, size); }
int truncate(const char *path, off_t size) {
    char full[4096];
    struct stat about;
    int done = (int)syscall(SYS_truncate, path, size);
    if (done == 0 && absolute(path, full) && stat(path, &about) == 0) {
        tell('O', about.st_ino, 0, full, strlen(full), NULL, 0);
        tell('T', about.st_ino, (uint64_t)size, NULL, 0, NULL, 0);
    }
    return done;
}
static int reserve(int fd, off_t at, off_t size) {
    if (syscall(SYS_fallocate, fd, 0, at, size) != 0) return errno;
    if (is_ours(fd)) tell('E', inode_of[fd], (uint64_t)(at + size), NULL, 0, NULL, 0);
    return 0;
}
int posix_fallocate(int fd, off_t at, off_t size) { return reserve(fd, at, size); }
int posix_fallocate64(int fd, off64_t at, off64_t size) { return reserve(fd, at, size); }
int fallocate(int fd, int mode, off_t at, off_t size) {
    int done = (int)syscall(SYS_fallocate, fd, mode, at, size);
    if (done == 0 && mode == 0 && is_ours(fd)) tell('E', inode_of[fd], (uint64_t)(at + size), NULL, 0, NULL, 0);
    return done;
}

static int synced(int fd, long number) {
    if (!is_ours(fd)) return (int)syscall(number, fd);
    tell('S', inode_of[fd], 0, NULL, 0, NULL, 0);
    return 0;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int rename(const char *from, const char *to) {
    char one[4096], two[4096];
    int done = (int)syscall(SYS_rename, from, to);
    if (done == 0 && absolute(from, one) && absolute(to, two)) tell('R', 0, 0, one, strlen(one), two, strlen(two));
    return done;
}
int link(const char *from, const char *to) {
    char one[4096], two[4096];
    int done = (int)syscall(SYS_link, from, to);
    if (done == 0 && absolute(from, one) && absolute(to, two)) tell('L', 0, 0, one, strlen(one), two, strlen(two));
    return done;
}
int unlink(const char *path) {
    char full[4096];
    int done = (int)syscall(SYS_unlink, path);
    if (done == 0 && absolute(path, full)) tell('U', 0, 0, full, strlen(full), NULL, 0);
    return done;
}
int mkdir(const char *path, mode_t mode) {
    char full[4096];
    int done = (int)syscall(SYS_mkdir, path, mode);
    if (done == 0 && absolute(path, full)) tell('M', 0, 0, full, strlen(full), NULL, 0);
    return done;
}
int rmdir(const char *path) {
    char full[4096];
    int done = (int)syscall(SYS_rmdir, path);
    if (done == 0 && absolute(path, full)) tell('D', 0, 0, full, strlen(full), NULL, 0);
    return done;
}
