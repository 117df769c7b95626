/*
 * What a pool master does from its beginning on. Descriptors come from the server: 3 the listening socket, 4 the control socket, 5 a pipe that ends
 * with the server, 6 a pipe on which the pool says that it serves, 7 the settings, 8 and 9 the server's output and error. The order counts: privileges are dropped before PHP
 * is started, so no code of an extension runs as root, and what OPcache shares belongs to the pool's user.
 */
#include "brisk_php.h"
#include "sapi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

enum { LISTEN_FD = 3, CONTROL_FD, LIFELINE_FD, READY_FD, SETTINGS_FD };

static void set_limits(void)
{
    if (settings.rlimit_files > 0) {
        struct rlimit files = {(rlim_t)settings.rlimit_files, (rlim_t)settings.rlimit_files};
        if (setrlimit(RLIMIT_NOFILE, &files) != 0)
            say(LEVEL_WARN, "pool %s: rlimit_files could not be set (%s)", settings.pool, strerror(errno));
    }
    if (settings.has_rlimit_core) {
        rlim_t bytes = settings.rlimit_core < 0 ? RLIM_INFINITY : (rlim_t)settings.rlimit_core;
        struct rlimit core = {bytes, bytes};
        if (setrlimit(RLIMIT_CORE, &core) != 0)
            say(LEVEL_WARN, "pool %s: rlimit_core could not be set (%s)", settings.pool, strerror(errno));
    }
    if (settings.has_priority && setpriority(PRIO_PROCESS, 0, settings.priority) != 0)
        say(LEVEL_WARN, "pool %s: process.priority could not be set (%s)", settings.pool, strerror(errno));
}

static gid_t group_id(const char *name)
{
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    if (*name && !*end)
        return (gid_t)number;
    const struct group *group = getgrnam(name);
    if (!group)
        fail("pool %s: there is no group \"%s\"", settings.pool, name);
    return group->gr_gid;
}

/* PHP leaves out silently what it cannot read: disable_functions and open_basedir among it. */
static void check_readable(const char *path)
{
    if (path && access(path, R_OK) != 0)
        fail("pool %s: its user may not read \"%s\"%s (%s)", settings.pool, path, settings.chroot ? " inside of \"chroot\"" : "", strerror(errno));
}

static void check_php_ini(void)
{
    check_readable(settings.php_ini);
    check_readable(settings.php_ini_folder);
    DIR *folder = settings.php_ini_folder ? opendir(settings.php_ini_folder) : NULL;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *end = strrchr(entry->d_name, '.');
        char path[PATH_MAX];
        if (!end || strcmp(end, ".ini") != 0 || snprintf(path, sizeof path, "%s/%s", settings.php_ini_folder, entry->d_name) >= PATH_MAX)
            continue;
        /* A link to what was removed says nothing, wherever it is read. */
        if (settings.chroot || access(path, F_OK) == 0 || errno != ENOENT)
            check_readable(path);
    }
    if (folder)
        closedir(folder);
}

/* In a pool's file $NAME is a variable of the server's environment. Any other value is what it is. */
static void resolve_environment(void)
{
    static const char OF_NAMES[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    for (size_t at = 0; at < settings.env_count; at++) {
        char **value = &settings.env[at].value;
        const char *name = *value + 1;
        if (**value != '$' || !*name || (*name >= '0' && *name <= '9') || name[strspn(name, OF_NAMES)])
            continue;
        const char *found = getenv(name);
        if (!found)
            say(LEVEL_WARN, "pool %s: the server's environment has no variable \"%s\" for env[%s]", settings.pool, name, settings.env[at].name);
        *value = strdup(found ? found : "");
    }
}

/* The pool's user. Its environment: what FPM's workers have. */
static void become_user(void)
{
    bool is_root = geteuid() == 0;
    const struct passwd *user = NULL;
    if (!is_root && (settings.user || settings.group))
        say(LEVEL_NOTICE, "pool %s: \"user\" and \"group\" have no effect: the server is not started as root", settings.pool);
    if (settings.user && is_root) {
        char *end;
        unsigned long number = strtoul(settings.user, &end, 10);
        user = *settings.user && !*end ? getpwuid((uid_t)number) : getpwnam(settings.user);
        if (!user)
            fail("pool %s: there is no user \"%s\"", settings.pool, settings.user);
    }
    gid_t group = settings.group && is_root ? group_id(settings.group) : user ? user->pw_gid : getegid();
    char *name = user ? strdup(user->pw_name) : NULL, *home = user ? strdup(user->pw_dir) : NULL;
    uid_t id = user ? user->pw_uid : geteuid();
    if (is_root && id == 0)
        fail("pool %s: PHP does not run as root; set \"user\"", settings.pool);
    if (is_root && name && initgroups(name, group) != 0)
        fail("pool %s: initgroups() failed (%s)", settings.pool, strerror(errno));
    if (is_root && settings.chroot && (chroot(settings.chroot) != 0 || chdir("/") != 0))
        fail("pool %s: chroot(\"%s\") failed (%s)", settings.pool, settings.chroot, strerror(errno));
    if (is_root && (setgid(group) != 0 || setuid(id) != 0))
        fail("pool %s: changing to user %s failed (%s)", settings.pool, settings.user ? settings.user : "?", strerror(errno));
    if (!is_root && settings.chroot)
        fail("pool %s: chroot needs a server that is started as root", settings.pool);
    if (settings.chdir && chdir(settings.chdir) != 0)
        fail("pool %s: chdir(\"%s\") failed (%s)", settings.pool, settings.chdir, strerror(errno));
    /* A change of the user makes a process that cannot be looked into; the slow log needs that of workers by their master. */
    prctl(PR_SET_DUMPABLE, settings.dumpable || settings.slowlog_timeout_ms > 0, 0, 0, 0);
    resolve_environment();
    if (settings.clear_env)
        clearenv();
    if (name)
        setenv("USER", name, 1);
    if (home)
        setenv("HOME", home, 1);
    for (size_t at = 0; at < settings.env_count; at++) {
        const char *value = settings.env[at].value;
        setenv(settings.env[at].name, value, 1);
    }
    if (settings.worker && access(settings.worker, R_OK) != 0)
        fail("pool %s: its user may not read the script \"%s\" of \"worker\" (%s)", settings.pool, settings.worker, strerror(errno));
    check_php_ini();
    free(name);
    free(home);
}

/* How ps shows it: in the place of the arguments. */
static void set_title(char **argv)
{
    char title[256];
    snprintf(title, sizeof title, "brisk: php pool %s", settings.pool);
    size_t room = strlen(argv[0]);
    for (char **arg = argv + 1; *arg; arg++)
        room += strlen(*arg) + 1;
    memset(argv[0], 0, room);
    memcpy(argv[0], title, strlen(title) < room ? strlen(title) : room);
    prctl(PR_SET_NAME, "brisk-php");
}

int pool_master(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "-v") == 0 || strcmp(argv[1], "--version") == 0)) {
        printf("PHP %s (fpm-fcgi) (built: %s %s)\nCopyright (c) The PHP Group\nZend Engine v%s, Copyright (c) Zend Technologies\n",
               PHP_VERSION, __DATE__, __TIME__, ZEND_VERSION);
        return 0;
    }
    if (argc < 2 || strcmp(argv[1], "--pool") != 0) {
        fprintf(stderr, "%s is started by brisk (php_pool); it has no use of its own\n", argv[0]);
        return 64;
    }
    for (int fd = LISTEN_FD; fd <= SERVER_ERROR_FD; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
            fail("descriptor %d is missing: pool masters are started by brisk", fd);
    say_begin();
    settings_read(SETTINGS_FD);
    close(SETTINGS_FD);
    listen_fd = LISTEN_FD;
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0)
        fail("opening /dev/null failed (%s)", strerror(errno));
    char *program = strdup(argv[0]);
    /* Logs may lie where only root writes. */
    logs_open();
    set_limits();
    become_user();
    board_make();
    output_make();
    worker_catch_signals();
    if (!php_begin(program))
        fail("pool %s: PHP could not be started; what it says stands above", settings.pool);
    /* It was told to end while PHP began: nobody wants it any more. From here on the pool reads its signals. */
    sigset_t quit;
    sigemptyset(&quit);
    sigaddset(&quit, SIGQUIT);
    sigprocmask(SIG_BLOCK, &quit, NULL);
    if (is_draining) {
        php_end();
        return 0;
    }
    set_title(argv);
    int code = pool_main(CONTROL_FD, LIFELINE_FD, READY_FD);
    php_end();
    return code;
}
