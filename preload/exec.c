/* Which programs can be started with the object, and the environment that does it. */
#include "object.h"
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Little stack is used: threads that start programs may have little. */

/* Interpreters of scripts that are followed, as many as the kernel follows. */
#define SCRIPTS 5

static long part_of(int fd, void *to, size_t len, uint64_t at)
{
    return BARE(pread64, fd, to, len, at);
}

static bool is_loader(const struct stat *stat)
{
    return stat->st_dev == shared->loader_device && stat->st_ino == shared->loader_inode;
}

/* Where in the file an address of the program lies. */
static uint64_t place_of_address(int fd, const Elf64_Ehdr *head, uint64_t address)
{
    for (unsigned i = 0; i < head->e_phnum && i < 256; i++) {
        Elf64_Phdr part;
        if (part_of(fd, &part, sizeof part, head->e_phoff + i * sizeof part) == sizeof part && part.p_type == PT_LOAD
            && address >= part.p_vaddr && address - part.p_vaddr < part.p_filesz)
            return address - part.p_vaddr + part.p_offset;
    }
    return 0;
}

/* Whether a program needs a library of this name and whatever follows. */
static bool is_named(int fd, uint64_t at, const char *name)
{
    char text[24] = {0};
    if (part_of(fd, text, sizeof text - 1, at) <= 0)
        return false;
    size_t same = 0;
    while (name[same] && text[same] == name[same])
        same++;
    return !name[same];
}

/* Whether the program's AddressSanitizer is a library, which ends it unless it comes first. */
static bool is_sanitised(int fd, const Elf64_Ehdr *head)
{
    Elf64_Phdr table = {0};
    for (unsigned i = 0; i < head->e_phnum && i < 256 && table.p_type != PT_DYNAMIC; i++)
        if (part_of(fd, &table, sizeof table, head->e_phoff + i * sizeof table) != sizeof table)
            return false;
    if (table.p_type != PT_DYNAMIC)
        return false;
    uint64_t names = 0;
    /* the names' place comes after those who name them */
    for (int round = 0; round < 2; round++) {
        for (uint64_t at = 0; at < table.p_filesz; at += sizeof(Elf64_Dyn)) {
            Elf64_Dyn entry;
            if (part_of(fd, &entry, sizeof entry, table.p_offset + at) != sizeof entry || entry.d_tag == DT_NULL)
                break;
            if (round == 0 && entry.d_tag == DT_STRTAB)
                names = place_of_address(fd, head, entry.d_un.d_ptr);
            if (round == 1 && entry.d_tag == DT_NEEDED
                && (is_named(fd, names + entry.d_un.d_val, "libasan.so")
                    || is_named(fd, names + entry.d_un.d_val, "libclang_rt.asan")))
                return true;
        }
    }
    return false;
}

static enum why by_loader(int fd, const Elf64_Ehdr *head, const struct stat *self)
{
    for (unsigned i = 0; i < head->e_phnum && i < 256; i++) {
        Elf64_Phdr part;
        if (part_of(fd, &part, sizeof part, head->e_phoff + i * sizeof part) != sizeof part)
            return STATIC;
        if (part.p_type != PT_INTERP)
            continue;
        char loader[256];
        struct stat stat;
        if (part.p_filesz >= sizeof loader || part_of(fd, loader, part.p_filesz, part.p_offset) < (long)part.p_filesz)
            return OTHER_LOADER;
        loader[part.p_filesz] = 0;
        if (BARE(stat, loader, &stat, 0, 0) < 0 || !is_loader(&stat))
            return OTHER_LOADER;
        return is_sanitised(fd, head) ? SANITISED : WATCHED;
    }
    return is_loader(self) ? WATCHED : STATIC;
}

/* Whether the kernel would give the program rights that its caller has not: the loader ignores the object then. */
static bool gains_rights(const char *path, const struct stat *stat)
{
    long user = BARE(getuid, 0, 0, 0, 0);
    if ((stat->st_mode & S_ISUID && (long)stat->st_uid != user)
        || (stat->st_mode & S_ISGID && (long)stat->st_gid != BARE(getgid, 0, 0, 0, 0)))
        return true;
    return user != 0 && BARE(getxattr, path, "security.capability", NULL, 0) > 0;
}

/* The path after "#!", put at the start of `head`. */
static const char *interpreter(char *head)
{
    char *path = head + 2;
    while (*path == ' ' || *path == '\t')
        path++;
    char *end = path;
    while (*end && *end != ' ' && *end != '\t' && *end != '\n')
        end++;
    *end = 0;
    return path;
}

static enum why judged(const char *path, int scripts)
{
    long fd = BARE(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (fd < 0)
        return WATCHED; /* missing, and exec says so; or not to be read, which the loader does not mind */
    union {
        Elf64_Ehdr elf;
        char text[257];
    } head = {0};
    struct stat stat;
    enum why why = WATCHED;
    if (BARE(fstat, fd, &stat, 0, 0) < 0 || !S_ISREG(stat.st_mode) || part_of((int)fd, &head, 256, 0) < 2)
        goto end;
    if (head.text[0] == '#' && head.text[1] == '!') {
        if (scripts)
            why = judged(interpreter(head.text), scripts - 1);
        goto end;
    }
    if (head.elf.e_ident[0] != 0x7f || head.elf.e_ident[1] != 'E')
        goto end; /* what a shell is to run */
    if (head.elf.e_ident[EI_CLASS] != ELFCLASS64 || head.elf.e_machine != EM_X86_64)
        why = OTHER_MACHINE;
    else if (gains_rights(path, &stat))
        why = PRIVILEGED;
    else
        why = by_loader((int)fd, &head.elf, &stat);
end:
    BARE(close, fd, 0, 0, 0);
    return why;
}

enum why watchable(const char *path)
{
    if (hot.filtered)
        return FILTERED;
    /* AT_EACCESS: the new program looks with the rights in force. */
    if (bare(SYS_faccessat2, AT_FDCWD, (long)object, R_OK, AT_EACCESS, 0, 0) == -13
        || BARE(access, object, F_OK, 0, 0) < 0)
        return OUT_OF_REACH;
    return judged(path, SCRIPTS);
}

/* As execvp looks for it. */
enum why watchable_by_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if (*c == '/')
            return watchable(name);
    const char *path = getenv("PATH");
    path = path ? path : "/bin:/usr/bin";
    char whole[1024];
    while (!hot.filtered) {
        size_t len = 0, in_name = 0;
        while (path[len] && path[len] != ':')
            len++;
        bool fits = true;
        for (size_t i = 0; i < len && (fits = i + 2 < sizeof whole); i++)
            whole[i] = path[i];
        size_t end = len;
        if (end)
            whole[end++] = '/';
        while (fits && name[in_name] && (fits = end + 1 < sizeof whole))
            whole[end++] = name[in_name++];
        if (fits && end) {
            whole[end] = 0;
            if (BARE(access, whole, X_OK, 0, 0) == 0)
                return watchable(whole);
        }
        if (!path[len])
            break;
        path += len + 1;
    }
    return watchable("/bin/sh");
}

/* ---- the environment ---- */

static const char variable[] = "LD_PRELOAD=";

static bool is_variable(const char *entry)
{
    for (size_t i = 0; variable[i]; i++)
        if (entry[i] != variable[i])
            return false;
    return true;
}

static size_t length(const char *text)
{
    size_t len = 0;
    while (text[len])
        len++;
    return len;
}

size_t slots_for(char *const *environment)
{
    size_t slots = 2;
    for (; environment && *environment; environment++)
        slots++;
    return slots;
}

size_t text_for(char *const *environment)
{
    size_t most = 0;
    for (; environment && *environment; environment++)
        if (is_variable(*environment) && length(*environment) > most)
            most = length(*environment);
    return most + sizeof variable + object_len + 2;
}

char **dressed(char *const *environment, char **room, char *text)
{
    size_t count = 0, own = 0, end = 0;
    for (; environment && environment[count]; count++) {
        room[count] = environment[count];
        if (is_variable(environment[count]))
            own = count + 1; /* the loader takes the last */
    }
    for (const char *from = own ? room[own - 1] : variable; *from; from++)
        text[end++] = *from;
    if (own)
        text[end++] = ':';
    for (size_t i = 0; i <= object_len; i++)
        text[end++] = object[i];
    room[own ? own - 1 : count] = text;
    room[count + !own] = NULL;
    return room;
}

/* ---- what fsprobe is told ---- */

static void note_stranger(enum why why, const char *name)
{
    uint64_t number = add(&shared->strangers, 1);
    if (number >= STRANGERS)
        return;
    size_t len = length(name);
    all_strangers[number].pid = all_processes[hot.process].pid;
    all_strangers[number].name_at = keep_name(name, len);
    all_strangers[number].name_len = len;
    __atomic_store_n(&all_strangers[number].why, why, __ATOMIC_RELEASE);
}

bool begin(enum why why, const char *name)
{
    if (why != WATCHED) {
        note_stranger(why, name);
        return false;
    }
    add(&shared->begun, 1);
    if (!__atomic_load_n(&shared->closed, __ATOMIC_SEQ_CST))
        return true;
    begin_failed();
    return false;
}

void begin_failed(void)
{
    add(&shared->begun, (uint64_t)-1);
}
