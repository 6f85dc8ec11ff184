// A file system in memory that compares names without case, served through /dev/fuse.
//
// `worker DIRECTORY COMMAND ...` mounts it, runs the command, and ends with the command's exit code;
// 77 means that it could not be mounted. Run it in a mount namespace of its own.
//
// Like ext4 and tmpfs with `casefold` it also ignores U+200C and takes U+017F for an `s`.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_NODES 4096
#define MAX_ENTRIES 4096
#define MAX_REQUEST (1 << 17)

struct node { mode_t mode; unsigned uid, gid, links; size_t size; char *data; };
struct entry { unsigned parent, node; char name[256]; };

static struct node nodes[MAX_NODES];
static struct entry entries[MAX_ENTRIES];
static unsigned node_count = 2; // 0 is none, FUSE_ROOT_ID is 1
static int device, child;

static void fold(const char *name, char *folded) {
    for (const unsigned char *c = (const void *)name; *c;) {
        if (c[0] == 0xe2 && c[1] == 0x80 && c[2] == 0x8c) { c += 3; continue; }
        if (c[0] == 0xc5 && c[1] == 0xbf) { *folded++ = 's'; c += 2; continue; }
        *folded++ = *c >= 'A' && *c <= 'Z' ? *c + 32 : *c;
        c++;
    }
    *folded = 0;
}

static struct entry *find(unsigned parent, const char *name) {
    char wanted[1024], known[1024];
    fold(name, wanted);
    for (struct entry *e = entries; e < entries + MAX_ENTRIES; e++) {
        if (!e->node || e->parent != parent) continue;
        fold(e->name, known);
        if (!strcmp(wanted, known)) return e;
    }
    return NULL;
}

static int is_empty(unsigned directory) {
    for (int i = 0; i < MAX_ENTRIES; i++)
        if (entries[i].node && entries[i].parent == directory) return 0;
    return 1;
}

static void drop(struct entry *e) {
    nodes[e->node].links--;
    e->node = 0;
}

static int add(unsigned parent, const char *name, unsigned node) {
    if (strlen(name) > 255) return -ENAMETOOLONG;
    if (find(parent, name)) return -EEXIST;
    for (struct entry *e = entries; e < entries + MAX_ENTRIES; e++) {
        if (e->node) continue;
        e->parent = parent;
        e->node = node;
        strcpy(e->name, name);
        nodes[node].links++;
        return 0;
    }
    return -ENOSPC;
}

static int make(const struct fuse_in_header *in, const char *name, mode_t mode) {
    if (node_count == MAX_NODES) return -ENOSPC;
    int failed = add(in->nodeid, name, node_count);
    if (failed) return failed;
    nodes[node_count].mode = mode;
    nodes[node_count].uid = in->uid;
    nodes[node_count].gid = in->gid;
    return node_count++;
}

static void reply(const struct fuse_in_header *in, int error, const void *data, size_t size) {
    static char buffer[MAX_REQUEST];
    struct fuse_out_header out = {sizeof out + size, error, in->unique};
    memcpy(buffer, &out, sizeof out);
    if (size) memcpy(buffer + sizeof out, data, size);
    if (write(device, buffer, out.len) < 0 && errno == ENODEV) exit(1);
}

static struct fuse_attr attributes(unsigned id) {
    struct node *n = nodes + id;
    struct fuse_attr a = {.ino = id, .size = n->size, .blocks = (n->size + 511) / 512, .mode = n->mode,
                          .nlink = n->links, .uid = n->uid, .gid = n->gid, .blksize = 4096};
    return a;
}

static struct fuse_entry_out entry_of(unsigned id) {
    struct fuse_entry_out out = {.nodeid = id, .generation = 1};
    out.attr = attributes(id);
    return out;
}

static void resize(struct node *n, size_t size) {
    n->data = realloc(n->data, size + 1);
    if (size > n->size) memset(n->data + n->size, 0, size - n->size);
    n->size = size;
}

static int rename_entry(unsigned from, const char *old, unsigned to, const char *new, unsigned flags) {
    struct entry *source = find(from, old), *target = find(to, new);
    if (!source) return -ENOENT;
    if (flags & ~RENAME_NOREPLACE) return -EINVAL;
    if (target && (flags & RENAME_NOREPLACE)) return -EEXIST;
    if (target && target->node != source->node) {
        if (S_ISDIR(nodes[target->node].mode) && !is_empty(target->node)) return -ENOTEMPTY;
        drop(target);
    }
    source->parent = to;
    snprintf(source->name, sizeof source->name, "%s", new);
    return 0;
}

static void list(const struct fuse_in_header *in, const struct fuse_read_in *read) {
    char buffer[8192];
    size_t size = 0;
    for (unsigned i = read->offset; i < MAX_ENTRIES; i++) {
        struct entry *e = entries + i;
        if (!e->node || e->parent != in->nodeid) continue;
        struct fuse_dirent d = {.ino = e->node, .off = i + 1, .namelen = strlen(e->name),
                                .type = (nodes[e->node].mode & S_IFMT) >> 12};
        size_t whole = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + d.namelen);
        if (size + whole > read->size || size + whole > sizeof buffer) break;
        memset(buffer + size, 0, whole);
        memcpy(buffer + size, &d, FUSE_NAME_OFFSET);
        memcpy(buffer + size + FUSE_NAME_OFFSET, e->name, d.namelen);
        size += whole;
    }
    reply(in, 0, buffer, size);
}

static void answer_entry(const struct fuse_in_header *in, int id) {
    if (id < 0) return reply(in, id, NULL, 0);
    struct fuse_entry_out out = entry_of(id);
    reply(in, 0, &out, sizeof out);
}

static void answer(const struct fuse_in_header *in, char *arg) {
    struct node *n = nodes + in->nodeid;
    struct entry *e;
    int id;
    switch (in->opcode) {
    case FUSE_INIT: {
        struct fuse_init_out out = {.major = 7, .minor = 31, .max_readahead = 65536, .max_write = 65536,
                                    .flags = FUSE_BIG_WRITES | FUSE_ATOMIC_O_TRUNC};
        return reply(in, 0, &out, sizeof out);
    }
    case FUSE_LOOKUP:
        e = find(in->nodeid, arg);
        return answer_entry(in, e ? (int)e->node : -ENOENT);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        return;
    case FUSE_SETATTR: {
        struct fuse_setattr_in *set = (void *)arg;
        if (set->valid & FATTR_MODE) n->mode = (n->mode & S_IFMT) | (set->mode & 07777);
        if (set->valid & FATTR_UID) n->uid = set->uid;
        if (set->valid & FATTR_GID) n->gid = set->gid;
        if (set->valid & FATTR_SIZE) resize(n, set->size);
    } // fall through
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr = attributes(in->nodeid)};
        return reply(in, 0, &out, sizeof out);
    }
    case FUSE_MKDIR: {
        struct fuse_mkdir_in *m = (void *)arg;
        return answer_entry(in, make(in, arg + sizeof *m, S_IFDIR | (m->mode & 07777)));
    }
    case FUSE_MKNOD: {
        struct fuse_mknod_in *m = (void *)arg;
        return answer_entry(in, make(in, arg + sizeof *m, m->mode));
    }
    case FUSE_CREATE: {
        struct fuse_create_in *c = (void *)arg;
        if ((id = make(in, arg + sizeof *c, S_IFREG | (c->mode & 07777))) < 0) return reply(in, id, NULL, 0);
        struct { struct fuse_entry_out entry; struct fuse_open_out open; } out = {entry_of(id), {0}};
        return reply(in, 0, &out, sizeof out);
    }
    case FUSE_SYMLINK: {
        char *target = arg + strlen(arg) + 1;
        if ((id = make(in, arg, S_IFLNK | 0777)) > 0) {
            nodes[id].data = strdup(target);
            nodes[id].size = strlen(target);
        }
        return answer_entry(in, id);
    }
    case FUSE_READLINK:
        return reply(in, 0, n->data, n->size);
    case FUSE_LINK: {
        struct fuse_link_in *l = (void *)arg;
        id = add(in->nodeid, arg + sizeof *l, l->oldnodeid);
        return answer_entry(in, id ? id : (int)l->oldnodeid);
    }
    case FUSE_UNLINK:
    case FUSE_RMDIR:
        e = find(in->nodeid, arg);
        if (e && in->opcode == FUSE_RMDIR && !is_empty(e->node)) return reply(in, -ENOTEMPTY, NULL, 0);
        if (e) drop(e);
        return reply(in, e ? 0 : -ENOENT, NULL, 0);
    case FUSE_RENAME: {
        struct fuse_rename_in *r = (void *)arg;
        char *old = arg + sizeof *r;
        return reply(in, rename_entry(in->nodeid, old, r->newdir, old + strlen(old) + 1, 0), NULL, 0);
    }
    case FUSE_RENAME2: {
        struct fuse_rename2_in *r = (void *)arg;
        char *old = arg + sizeof *r;
        return reply(in, rename_entry(in->nodeid, old, r->newdir, old + strlen(old) + 1, r->flags), NULL, 0);
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
        struct fuse_open_in *o = (void *)arg;
        if (in->opcode == FUSE_OPEN && (o->flags & O_TRUNC)) resize(n, 0);
        struct fuse_open_out out = {0};
        return reply(in, 0, &out, sizeof out);
    }
    case FUSE_READ: {
        struct fuse_read_in *r = (void *)arg;
        size_t left = r->offset < n->size ? n->size - r->offset : 0;
        return reply(in, 0, n->data + r->offset, left < r->size ? left : r->size);
    }
    case FUSE_WRITE: {
        struct fuse_write_in *w = (void *)arg;
        if (w->offset + w->size > n->size) resize(n, w->offset + w->size);
        memcpy(n->data + w->offset, arg + sizeof *w, w->size);
        struct fuse_write_out out = {.size = w->size};
        return reply(in, 0, &out, sizeof out);
    }
    case FUSE_READDIR:
        return list(in, (void *)arg);
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.blocks = 1 << 20, .bfree = 1 << 19, .bavail = 1 << 19,
                                             .files = MAX_NODES, .ffree = MAX_NODES - node_count,
                                             .bsize = 4096, .namelen = 255, .frsize = 4096}};
        return reply(in, 0, &out, sizeof out);
    }
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_FLUSH:
    case FUSE_FSYNC:
        return reply(in, 0, NULL, 0);
    default:
        return reply(in, -ENOSYS, NULL, 0);
    }
}

static void ended(int signal) {
    int status;
    (void)signal;
    if (waitpid(child, &status, WNOHANG) == child) _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int main(int count, char **args) {
    static char request[MAX_REQUEST];
    char options[128];
    if (count < 3) return 2;
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", device);
    if (device < 0 || mount("folding", args[1], "fuse", 0, options)) {
        perror("fuse");
        return 77;
    }
    nodes[FUSE_ROOT_ID] = (struct node){.mode = S_IFDIR | 0755, .links = 2};
    signal(SIGCHLD, ended);
    child = fork();
    if (child < 0) return 77;
    if (!child) {
        execvp(args[2], args + 2);
        _exit(127);
    }
    for (;;) {
        ssize_t size = read(device, request, sizeof request);
        if (size < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN)) continue;
        if (size < (ssize_t)sizeof(struct fuse_in_header)) return 1;
        request[size < MAX_REQUEST ? size : MAX_REQUEST - 1] = 0;
        answer((void *)request, request + sizeof(struct fuse_in_header));
    }
}
