/* Races calls about names against each other: several processes, several threads each.
 *
 *     race SEED CALLS PROCESSES THREADS
 *
 * Each thread makes random calls. One more thread of each process rewrites the path of a call that
 * waits (TOCTOU). Prints how many calls were made. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long calls;
static uint64_t seed;
static volatile char flipped[32] = "okay.txt";
static volatile int is_over;
static long made;

struct own { uint64_t state; };

static uint64_t draw(struct own *own, uint64_t below) {
    own->state ^= own->state << 13;
    own->state ^= own->state >> 7;
    own->state ^= own->state << 17;
    return (own->state >> 11) % below;
}

#define PICK(list) (list[draw(own, sizeof list / sizeof list[0])])

static const char *name(struct own *own) {
    static const char *names[] = {
        "haft.toml", "sub/haft.toml", "HAFT.toml", ".git/config", ".git/hooks", ".git/hooks/pre-commit", "sub/.git",
        "d1/config", "d2/config", "d1/hooks/x", "d2/hooks/x", "link/config", "link/hooks/x", "link", "d1", "d2", "d3",
        "d1/HEAD", "d1/hooks", "okay.txt", "a", "b", "sub/a", "../outside/new", "out/new", "secret/key", "d1/key",
        "secret", ".git/index", ".git/x", ".git", "sub/.git/config", "d3/.git/config", ".envrc", "./sub/../.envrc",
        "link/../.envrc", ".claude/settings.json", ".claude", "/proc/self/cwd/haft.toml", "/proc/thread-self/cwd/.envrc",
    };
    return PICK(names);
}

static void *flip(void *none) {
    (void)none;
    for (uint64_t turn = 0; !is_over; turn++) {
        const char *text = turn & 1 ? "haft.toml" : "okay.txt\0";
        for (int at = 0; at < 10; at++) flipped[at] = text[at];
    }
    return NULL;
}

static void write_and_close(long fd) {
    if (fd < 0) return;
    if (write((int)fd, "bad", 3) < 0) { /* A handle, or a directory. */ }
    close((int)fd);
}

static void *work(void *argument) {
    struct own *own = argument;
    for (long turn = 0; turn < calls; turn++) {
        const char *p = name(own), *q = name(own);
        static const int flags[] = {O_WRONLY | O_CREAT, O_RDWR | O_CREAT | O_TRUNC, O_WRONLY | O_TRUNC, O_WRONLY | O_CREAT | O_EXCL, O_RDWR | O_APPEND, O_RDONLY | O_CREAT};
        char proc[64];
        long fd;
        switch (draw(own, 18)) {
        case 0: case 1: case 2: case 3:
            write_and_close(syscall(SYS_openat, AT_FDCWD, (const char *)flipped, PICK(flags) | O_NONBLOCK, 0644));
            break;
        case 4: write_and_close(syscall(SYS_openat, AT_FDCWD, p, PICK(flags) | O_NONBLOCK, 0644)); break;
        case 5: mkdir(p, 0755); break;
        case 6: { static const char *to[] = {".git", "sub", "d1", "../outside", "haft.toml", "d1/.."}; if (symlink(PICK(to), p)) break; break; }
        case 7: link(p, q); break;
        case 8: syscall(SYS_renameat2, AT_FDCWD, p, AT_FDCWD, q, 2); break;
        case 9: rename(p, q); break;
        case 10: unlink(p); break;
        case 11: rmdir(p); break;
        case 12: if (truncate(p, 0)) break; break;
        case 13:
            /* A name for a file that had none. */
            fd = syscall(SYS_openat, AT_FDCWD, ".", O_TMPFILE | O_RDWR, 0644);
            if (fd < 0) break;
            if (write((int)fd, "bad", 3) < 0) break;
            sprintf(proc, "/proc/self/fd/%ld", fd);
            linkat(AT_FDCWD, proc, AT_FDCWD, draw(own, 2) ? p : (const char *)flipped, AT_SYMLINK_FOLLOW);
            linkat((int)fd, "", AT_FDCWD, p, AT_EMPTY_PATH);
            close((int)fd);
            break;
        case 14:
            /* Read, then written through its descriptor. */
            fd = syscall(SYS_openat, AT_FDCWD, p, O_RDONLY | O_NONBLOCK, 0);
            if (fd < 0) break;
            sprintf(proc, "%s/%ld", draw(own, 2) ? "/dev/fd" : "/proc/self/fd", fd);
            write_and_close(syscall(SYS_openat, AT_FDCWD, proc, O_WRONLY | O_NONBLOCK, 0));
            if (truncate(proc, 0)) { /* Refused. */ }
            close((int)fd);
            break;
        case 15:
            /* The working directory is that of all threads. */
            { static const char *to[] = {"sub", "d1", "link", ".git", "..", "d3"}; char here[4096];
              if (chdir(PICK(to)) == 0 && (!getcwd(here, sizeof here) || !strstr(here, "/inside")) && chdir(getenv("WORKSPACE"))) _exit(3);
              if (draw(own, 2) && chdir(getenv("WORKSPACE"))) _exit(3); }
            break;
        case 16: syscall(SYS_unshare, CLONE_FS); break;
        case 17:
            fd = syscall(SYS_openat, AT_FDCWD, draw(own, 2) ? "d1" : "link", O_PATH | O_DIRECTORY, 0);
            if (fd < 0) break;
            write_and_close(syscall(SYS_openat, (int)fd, draw(own, 2) ? "config" : "haft.toml", O_WRONLY | O_CREAT, 0644));
            mkdirat((int)fd, "hooks", 0755);
            close((int)fd);
            break;
        }
        __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

int main(int count, char **args) {
    if (count < 5) return 2;
    seed = strtoull(args[1], NULL, 10);
    calls = strtol(args[2], NULL, 10);
    int processes = atoi(args[3]), threads = atoi(args[4]);
    for (int at = 0; at < processes; at++) {
        if (fork()) continue;
        pthread_t all[64], flipper;
        struct own owns[64];
        pthread_create(&flipper, NULL, flip, NULL);
        for (int thread = 0; thread < threads; thread++) {
            owns[thread].state = (seed * 1000 + (uint64_t)at * 64 + (uint64_t)thread + 1) * 0x9e3779b97f4a7c15u | 1;
            pthread_create(&all[thread], NULL, work, &owns[thread]);
        }
        for (int thread = 0; thread < threads; thread++) pthread_join(all[thread], NULL);
        is_over = 1;
        pthread_join(flipper, NULL);
        printf("%ld\n", made);
        fflush(stdout);
        _exit(0);
    }
    int status, failed = 0;
    while (wait(&status) > 0) failed |= status;
    return failed != 0;
}
