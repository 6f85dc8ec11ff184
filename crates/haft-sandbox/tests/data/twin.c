/* Makes random calls about names in the working directory and prints what each of them gave.
 *
 *     twin SEED COUNT
 *
 * The same seed makes the same calls, so two runs in equal trees must print the same. Every call goes
 * straight to the kernel: no library changes its flags. The tree is printed at the end. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t state;

static uint64_t draw(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
}

#define PICK(list) (list[draw(sizeof list / sizeof list[0])])
#define FDS 6
static int fds[FDS];
static char top[4096];

/* A path out of a few names, so that calls meet each other's files. */
static const char *path(char *space) {
    static const char *names[] = {"a", "b", "c", "d", "e", "f", "g", "l", "m", "loop", "fifo", ".", "..", "self"};
    static char name_too_long[300], name_long[256];
    memset(name_too_long, 'x', 256);
    memset(name_long, 'y', 255);
    space[0] = 0;
    switch (draw(60)) {
    case 0: return "";
    case 1: return (const char *)8;
    case 2: return (const char *)-4096L;
    case 3: return "/";
    case 4: return "/proc/self/cwd/a";
    case 5: sprintf(space, "/proc/self/fd/%d", fds[draw(FDS)]); return space;
    case 6: sprintf(space, "/dev/fd/%d", fds[draw(FDS)]); return space;
    case 7: sprintf(space, "/proc/thread-self/fd/%d/%s", fds[draw(FDS)], PICK(names)); return space;
    case 8: return "/dev/null";
    case 9: return name_too_long;
    case 10: return name_long;
    case 11: memset(space, '/', 4095); space[0] = '.'; space[4095] = 0; space[4000] = 'a'; return space;
    case 12: memset(space, '/', 4096); space[4096] = 0; return space;
    case 13: return "/proc/self/root/proc/self/cwd/b";
    case 14: return "/usr/nothing-here/x";
    case 15: return "/usr/x";
    }
    if (draw(10) == 0) sprintf(space, "%s/", top);
    for (int depth = (int)draw(3); depth >= 0; depth--) {
        strcat(space, PICK(names));
        if (depth) strcat(space, draw(12) ? "/" : "//");
    }
    if (draw(8) == 0) strcat(space, draw(3) ? "/" : "/.");
    return space;
}

/* Whether a path leads out of the tree at once, or ends in `/`, `.` or `..`. */
static int is_odd(const char *text) {
    if ((uintptr_t)text < 4096 || (uintptr_t)text > (uintptr_t)-8192L || !*text) return 0;
    char last = text[strlen(text) - 1];
    return last == '/' || last == '.' || (*text == '/' && strncmp(text, top, strlen(top)));
}

/* Without `O_NONBLOCK` an open of one waits for the other end. */
static int is_fifo(const char *name) {
    struct stat info;
    return stat(name, &info) == 0 && S_ISFIFO(info.st_mode);
}

static int base(void) { return draw(3) ? AT_FDCWD : draw(8) ? fds[draw(FDS)] : draw(2) ? -1 : 99; }

static const char *shown(const char *text) {
    static char space[2][64];
    static int turn;
    if ((uintptr_t)text < 4096 || (uintptr_t)text > (uintptr_t)-8192L) return "BAD";
    size_t skip = strncmp(text, top, strlen(top)) ? 0 : strlen(top);
    turn = !turn;
    snprintf(space[turn], sizeof space[turn], "%s%.50s", skip ? "TOP" : "", text + skip);
    return space[turn];
}

static void opened(long fd) {
    struct stat info;
    if (fstat((int)fd, &info)) { printf("fstat %d\n", errno); return; }
    printf("   fd %ld mode %o flags %o %d", fd, info.st_mode, fcntl((int)fd, F_GETFL) & ~O_NOFOLLOW, fcntl((int)fd, F_GETFD));
    if (S_ISREG(info.st_mode)) printf(" wrote %ld %d", (long)write((int)fd, "text", draw(5)), 0);
    printf("\n");
    int slot = (int)draw(FDS);
    /* The first stays the working directory, as something to hold on to. */
    if (slot == 0) { close((int)fd); return; }
    if (fds[slot] > 2 && fds[slot] != (int)fd) close(fds[slot]);
    fds[slot] = (int)fd;
}

/* Comes back from directories that are not of the tree. */
static void stay(void) {
    char here[8192];
    if ((!getcwd(here, sizeof here) || strncmp(here, top, strlen(top))) && chdir(top)) exit(3);
}

static void print_tree(const char *folder) {
    struct dirent **list;
    int count = scandir(folder, &list, NULL, alphasort);
    if (count < 0) { printf("%s: not listed %d\n", folder, errno); return; }
    for (int at = 0; at < count; at++) {
        char name[8192], text[4096] = "";
        struct stat info;
        if (!strcmp(list[at]->d_name, ".") || !strcmp(list[at]->d_name, "..")) continue;
        if (snprintf(name, sizeof name, "%s/%s", folder, list[at]->d_name) > 4000) continue;
        if (lstat(name, &info)) { printf("%s: %d\n", name, errno); continue; }
        if (S_ISLNK(info.st_mode) && readlink(name, text, 4000) < 0) strcpy(text, "?");
        if (!strncmp(text, top, strlen(top))) strcpy(text, "TOP");
        if (S_ISREG(info.st_mode)) {
            int fd = open(name, O_RDONLY);
            if (fd >= 0) { if (read(fd, text, 64) < 0) strcpy(text, "?"); close(fd); }
        }
        printf("%s mode %o links %d size %ld %.64s\n", name, info.st_mode, S_ISDIR(info.st_mode) ? 0 : (int)info.st_nlink,
               S_ISREG(info.st_mode) ? (long)info.st_size : 0, text);
        if (S_ISDIR(info.st_mode)) print_tree(name);
    }
}

int main(int count, char **args) {
    if (count < 3 || !getcwd(top, sizeof top)) return 2;
    /* Never as root of the machine outside of a sandbox. */
    if (geteuid() == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return 4;
    state = strtoull(args[1], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    long calls = strtol(args[2], NULL, 10);
    fds[0] = open(".", O_RDONLY | O_DIRECTORY);
    for (int at = 1; at < FDS; at++) fds[at] = 90 + at;
    static const int access[] = {O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_RDWR};
    static const int extra[] = {O_CREAT, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_NOFOLLOW, O_DIRECTORY, O_CLOEXEC, O_PATH, O_TMPFILE, 0x400000, O_SYNC};
    static const int modes[] = {0777, 0666, 0644, 0600, 0400, 0, 01777, 0100644, 0x10000};
    static const int kinds[] = {0, S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFDIR, S_IFLNK};
    static const int umasks[] = {022, 0, 077, 0777, 002};
    for (long turn = 0; turn < calls; turn++) {
        char one[8192], two[8192];
        const char *p = path(one), *q = path(two);
        int from = base(), to = base(), flags = 0, mode = PICK(modes);
        long result = 0;
        const char *name = "?";
        uint64_t kind = draw(16);
        errno = 0;
        switch (kind) {
        case 0: case 1: case 2: case 3: case 4:
            /* Without waiting: a FIFO would wait for its other end. */
            flags = access[draw(30) ? draw(3) : 3] | O_NONBLOCK;
            for (int more = (int)draw(4); more > 0; more--) flags |= PICK(extra);
            if (!draw(3)) flags |= O_CREAT;
            name = "openat";
            result = draw(4) ? syscall(SYS_openat, from, p, flags, mode)
#ifdef SYS_open
                             : (from = AT_FDCWD, draw(4) || is_fifo(p)) ? syscall(SYS_open, p, flags, mode)
                                                                         : syscall(SYS_creat, p, mode);
#else
                             : syscall(SYS_openat, from, p, flags, mode);
#endif
            break;
        case 5: name = "mkdirat"; result = syscall(SYS_mkdirat, from, p, mode); break;
        case 6: name = "mknodat"; flags = PICK(kinds); result = syscall(SYS_mknodat, from, p, flags | (mode & 01777), 0); break;
        case 7: {
            static const char *targets[] = {"a", "b", "../a", "d/e", "loop", "l", "m", ".", "..", "a/", "/proc/self/cwd/c", "", "missing/x", "/dev/fd/0"};
            const char *target = draw(20) ? PICK(targets) : q;
            name = "symlinkat"; q = target; result = syscall(SYS_symlinkat, target, from, p); break;
        }
        case 8: case 9: {
            static const int list[] = {0, 0, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH, AT_EMPTY_PATH | AT_SYMLINK_FOLLOW, 1};
            flags = PICK(list); name = "linkat"; result = syscall(SYS_linkat, from, p, to, q, flags); break;
        }
        case 10: case 11: {
            static const int list[] = {0, 0, 1, 2, 2, 3, 8};
            flags = PICK(list); name = "renameat2"; result = syscall(SYS_renameat2, from, p, to, q, flags); break;
        }
        case 12: case 13: {
            static const int list[] = {0, AT_REMOVEDIR, 0, AT_REMOVEDIR, 1};
            flags = PICK(list); name = "unlinkat"; result = syscall(SYS_unlinkat, from, p, flags); break;
        }
        case 14: {
            static const long list[] = {0, 3, 100, -1};
            flags = (int)draw(4); name = "truncate"; result = syscall(SYS_truncate, p, list[flags]); break;
        }
        case 15:
            if (draw(2)) { name = "umask"; umask((mode_t)PICK(umasks)); }
            else { name = "chdir"; result = draw(2) ? chdir(top) : chdir(p); stay(); }
            break;
        }
        int error = result < 0 ? errno : 0;
        /* Of two reasons for a failure the supervisor may give the other one here, see docs/design/names.md. */
        int is_rename = kind >= 10 && kind <= 11, is_unlink = kind >= 12 && kind <= 13;
        if (error == EXDEV && is_rename) error = EBUSY;
        if (error && is_rename && (is_odd(p) || is_odd(q))) error = -1;
        if (error && is_unlink && is_odd(p) && from != AT_FDCWD) error = -1;
        if (error && kind == 6 && S_ISCHR((mode_t)flags)) error = -1;
        printf("%ld %s %s %s %d %d flags %o mode %o = %d\n", turn, name, shown(p), shown(q), from, to, flags, mode, error);
        if (kind < 5 && result >= 0) opened(result);
    }
    if (chdir(top)) return 3;
    umask(022);
    print_tree(".");
    return 0;
}
