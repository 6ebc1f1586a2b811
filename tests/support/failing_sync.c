/* fsync and fdatasync fail with EIO while the file that FAILING_SYNC names exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int call(const char *name, int fd) {
    const char *mark = getenv("FAILING_SYNC");
    if (mark && access(mark, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return real(fd);
}

int fsync(int fd) { return call("fsync", fd); }
int fdatasync(int fd) { return call("fdatasync", fd); }
