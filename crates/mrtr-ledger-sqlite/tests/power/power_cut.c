/*
 * A disk that keeps only what was synced, and a power cut. For one test, by LD_PRELOAD, on Linux.
 *
 * Files under the folder POWER_CUT_FOLDER are watched (all but the log's index, which is shared memory). Writes go through to
 * them, so that whoever reads sees them; beside that, each file has an image of what has been synced, and a list of what has been
 * written since. A sync moves the list into the image and does not touch the disk. The power is cut at the write or sync whose
 * number is POWER_CUT_AT: each file gets the bytes of its image, with a random part of the sectors that were written since, and
 * the process ends with exit code 77. A new name whose folder was not synced may be gone, and one that was removed may be back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 64
#define FDS 1024
#define SECTOR 512

struct write_since {
    off_t at;
    size_t length; /* of the data; a truncation has none */
    int is_truncation;
    char *data;
    struct write_since *next;
};

struct file {
    int is_used;
    dev_t device;
    ino_t inode;
    char path[4096];
    int name_is_synced;
    int is_removed;
    char *image;
    size_t length;
    struct write_since *first, *last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file files[FILES];
static struct file *of_fd[FDS];
static long events, cut_at;
static unsigned long draws;
static const char *folder;

static int (*real_open)(const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_unlink)(const char *);

static void die(const char *what) {
    dprintf(2, "power_cut: %s\n", what);
    _exit(70);
}

static void *find(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        die(name);
    return found;
}

__attribute__((constructor)) static void start(void) {
    real_open = find("open64");
    real_close = find("close");
    real_pwrite = find("pwrite64");
    real_write = find("write");
    real_ftruncate = find("ftruncate64");
    real_fsync = find("fsync");
    real_fdatasync = find("fdatasync");
    real_unlink = find("unlink");
    folder = getenv("POWER_CUT_FOLDER");
    const char *at = getenv("POWER_CUT_AT"), *seed = getenv("POWER_CUT_SEED");
    cut_at = at ? atol(at) : 0;
    draws = seed ? strtoul(seed, 0, 10) * 2654435761u + 1 : 1;
}

static int is_heads(void) {
    draws ^= draws << 13;
    draws ^= draws >> 7;
    draws ^= draws << 17;
    return draws >> 20 & 1;
}

static int is_watched(const char *path) {
    size_t length = strlen(path);
    return folder && !strncmp(path, folder, strlen(folder)) && !(length > 4 && !strcmp(path + length - 4, "-shm"));
}

/* Puts bytes into an image. */
static void put(struct file *file, off_t at, const char *data, size_t length) {
    size_t end = (size_t)at + length;
    if (end > file->length) {
        file->image = realloc(file->image, end);
        if (!file->image)
            die("no memory");
        memset(file->image + file->length, 0, end - file->length);
        file->length = end;
    }
    memcpy(file->image + at, data, length);
}

static void cut_to(struct file *file, off_t length) {
    if ((size_t)length < file->length)
        file->length = (size_t)length;
    else if ((size_t)length > file->length)
        put(file, length - 1, "", 1);
}

/* Takes over what was written since the last sync; all of it, or by sectors as the coin falls. */
static void take_over(struct file *file, int by_chance) {
    for (struct write_since *one = file->first, *next; one; one = next) {
        next = one->next;
        if (one->is_truncation) {
            if (!by_chance || is_heads())
                cut_to(file, one->at);
        } else if (!by_chance) {
            put(file, one->at, one->data, one->length);
        } else {
            for (size_t from = 0; from < one->length; from += SECTOR) {
                size_t left = one->length - from;
                if (is_heads())
                    put(file, one->at + (off_t)from, one->data + from, left < SECTOR ? left : SECTOR);
            }
        }
        free(one->data);
        free(one);
    }
    file->first = file->last = 0;
}

static void cut(void) {
    for (int i = 0; i < FILES; i++) {
        struct file *file = &files[i];
        if (!file->is_used)
            continue;
        take_over(file, 1);
        int is_there = file->is_removed ? is_heads() : file->name_is_synced || is_heads();
        if (!is_there) {
            real_unlink(file->path);
            continue;
        }
        int fd = real_open(file->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0)
            die("a file cannot be put back");
        for (size_t done = 0; done < file->length;) {
            ssize_t wrote = real_write(fd, file->image + done, file->length - done);
            if (wrote <= 0)
                die("a file cannot be written back");
            done += (size_t)wrote;
        }
    }
    _exit(77);
}

/* Counts a write or sync, and cuts the power before it if its turn has come. Under the lock. */
static void count(void) {
    if (++events == cut_at)
        cut();
}

static struct file *watched(int fd) {
    return fd >= 0 && fd < FDS ? of_fd[fd] : 0;
}

static void note(struct file *file, off_t at, const void *data, size_t length, int is_truncation) {
    struct write_since *one = calloc(1, sizeof *one);
    if (!one || (length && !(one->data = malloc(length))))
        die("no memory");
    one->at = at;
    one->length = length;
    one->is_truncation = is_truncation;
    if (length)
        memcpy(one->data, data, length);
    if (file->last)
        file->last->next = one;
    else
        file->first = one;
    file->last = one;
}

/* Under the lock. `was_there`: whether the name was there before it was opened. */
static void watch(int fd, const char *path, int was_there) {
    struct stat stat;
    if (fd >= FDS || fstat(fd, &stat) || !S_ISREG(stat.st_mode))
        return;
    struct file *file = 0;
    for (int i = 0; i < FILES && !file; i++)
        if (files[i].is_used && files[i].device == stat.st_dev && files[i].inode == stat.st_ino && !files[i].is_removed)
            file = &files[i];
    for (int i = 0; i < FILES && !file; i++)
        if (!files[i].is_used) {
            file = &files[i];
            file->is_used = 1;
            file->device = stat.st_dev;
            file->inode = stat.st_ino;
            snprintf(file->path, sizeof file->path, "%s", path);
            file->name_is_synced = was_there;
            /* Through this descriptor: closing another one would give up the process's locks on the file. */
            if (stat.st_size) {
                put(file, stat.st_size - 1, "", 1);
                int flags = fcntl(fd, F_GETFL);
                if ((flags & O_ACCMODE) == O_WRONLY || pread(fd, file->image, (size_t)stat.st_size, 0) != stat.st_size)
                    die("a file cannot be read");
            }
        }
    if (!file)
        die("too many files");
    of_fd[fd] = file;
}

static int opened(const char *path, int flags, mode_t mode) {
    if (!is_watched(path))
        return real_open(path, flags, mode);
    pthread_mutex_lock(&lock);
    int was_there = !access(path, F_OK);
    int fd = real_open(path, flags, mode);
    if (fd >= 0)
        watch(fd, path, was_there);
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE_OF(flags)                                                                                                           \
    mode_t mode = 0;                                                                                                             \
    if ((flags) & O_CREAT) {                                                                                                     \
        va_list rest;                                                                                                            \
        va_start(rest, flags);                                                                                                   \
        mode = (mode_t)va_arg(rest, int);                                                                                        \
        va_end(rest);                                                                                                            \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(path, flags, mode);
}

int close(int fd) {
    pthread_mutex_lock(&lock);
    if (fd >= 0 && fd < FDS)
        of_fd[fd] = 0;
    int result = real_close(fd);
    pthread_mutex_unlock(&lock);
    return result;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t at) {
    if (!watched(fd))
        return real_pwrite(fd, data, length, at);
    pthread_mutex_lock(&lock);
    count();
    ssize_t wrote = real_pwrite(fd, data, length, at);
    if (wrote > 0)
        note(watched(fd), at, data, (size_t)wrote, 0);
    pthread_mutex_unlock(&lock);
    return wrote;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    return pwrite64(fd, data, length, at);
}

ssize_t write(int fd, const void *data, size_t length) {
    if (watched(fd))
        die("a watched file is written to in a way that this does not know");
    return real_write(fd, data, length);
}

int ftruncate64(int fd, off_t length) {
    if (!watched(fd))
        return real_ftruncate(fd, length);
    pthread_mutex_lock(&lock);
    count();
    int result = real_ftruncate(fd, length);
    if (!result)
        note(watched(fd), length, 0, 0, 1);
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int fd, off_t length) {
    return ftruncate64(fd, length);
}

static int synced(int fd, int (*real)(int)) {
    struct stat stat;
    pthread_mutex_lock(&lock);
    int result = 0;
    if (watched(fd)) {
        count();
        take_over(watched(fd), 0);
    } else if (!fstat(fd, &stat) && S_ISDIR(stat.st_mode)) {
        count();
        for (int i = 0; i < FILES; i++)
            if (files[i].is_used) {
                files[i].name_is_synced = 1;
                if (files[i].is_removed)
                    files[i] = (struct file){0};
            }
    } else {
        result = real(fd);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int fsync(int fd) {
    return synced(fd, real_fsync);
}

int fdatasync(int fd) {
    return synced(fd, real_fdatasync);
}

int unlink(const char *path) {
    pthread_mutex_lock(&lock);
    int result = real_unlink(path);
    for (int i = 0; i < FILES && !result; i++)
        if (files[i].is_used && !files[i].is_removed && !strcmp(files[i].path, path))
            files[i].is_removed = 1;
    pthread_mutex_unlock(&lock);
    return result;
}
