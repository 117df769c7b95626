/*
 * How a pool master begins: as a program that is linked with PHP's library, or (HOSTED) as a library that is loaded into PHP-FPM's
 * program and takes the place of its main(). In a program PHP's calls and global variables need no tables, as they do in a shared
 * library: that saves 5 % of the CPU time of a page of WordPress.
 */
#include "brisk_php.h"

#ifndef HOSTED

int main(int argc, char **argv)
{
    return pool_master(argc, argv);
}

#else

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Main(int, char **, char **);
typedef int Start(Main *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

/* The server put us first among what is preloaded. Programs that scripts start get what was there before. */
static void clean_environment(void)
{
    const char *all = getenv("LD_PRELOAD");
    const char *others = all ? strchr(all, ':') : NULL;
    char *kept = others ? strdup(others + 1) : NULL;
    if (kept)
        setenv("LD_PRELOAD", kept, 1);
    else
        unsetenv("LD_PRELOAD");
    free(kept);
}

static int hosted_main(int argc, char **argv, char **environment)
{
    (void)environment;
    clean_environment();
    /* Asked before a pool is started: a PHP-FPM that was built in another way cannot load this, or does not let it. */
    if (argc == 2 && strcmp(argv[1], "--hosted") == 0) {
        puts("brisk-php");
        return 0;
    }
    return pool_master(argc, argv);
}

/* The C library's own, which each program calls first. Libraries are initialised by then. */
__attribute__((visibility("default"))) int __libc_start_main(Main *program_main, int argc, char **argv, void (*init)(void),
                                                             void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    (void)program_main;
    Start *start = (Start *)dlsym(RTLD_NEXT, "__libc_start_main");
    if (!start)
        abort();
    return start(hosted_main, argc, argv, init, fini, loader_fini, stack_end);
}

#endif
