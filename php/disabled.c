/*
 * disable_functions and disable_classes: what the pool says is added to php.ini's, and what a request's PHP_ADMIN_VALUE says holds for that
 * request. PHP itself takes functions out of its table for good, which scripts in OPcache that were compiled before do not survive, and which
 * no later request of the worker would want. Here a function stays, and says for the length of the request that it is none.
 */
#include "brisk_php.h"
#include "sapi.h"

#include "php_ini.h"
#include "zend_exceptions.h"

#include <string.h>

static const char FUNCTIONS[] = "disable_functions", CLASSES[] = "disable_classes";

struct disabled {
    zend_internal_function *function;
    zif_handler handler;    /* its own */
};

static struct disabled *disabled;
static size_t count;
static bool is_refused;

bool disabled_is_list(const char *name)
{
    return strcmp(name, FUNCTIONS) == 0 || strcmp(name, CLASSES) == 0;
}

static void ZEND_FASTCALL refuse(INTERNAL_FUNCTION_PARAMETERS)
{
    (void)return_value;
    zend_throw_error(NULL, "Call to undefined function %s()", ZSTR_VAL(EX(func)->common.function_name));
}

static void disable_function(const char *name, size_t length)
{
    zend_internal_function *function = zend_hash_str_find_ptr(CG(function_table), name, length);
    if (!function || function->type != ZEND_INTERNAL_FUNCTION || function->handler == refuse)
        return;
    disabled = perealloc(disabled, (count + 1) * sizeof *disabled, 1);
    disabled[count++] = (struct disabled){function, function->handler};
    function->handler = refuse;
}

/* A class does not come back: the worker ends after this request. */
static void disable_class(const char *name, size_t length)
{
#if PHP_VERSION_ID < 80500
    const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), name, length);
    if (class && class->type == ZEND_INTERNAL_CLASS && zend_disable_class(name, length) == SUCCESS)
        is_draining = 1;
#else
    (void)name, (void)length;
#endif
}

/* The JIT's code, which all workers share, calls functions without looking at them. "off" stops no code that is there, and any script may set
 * another value; only "disable" holds. The pool's values count, not the request's. */
static bool is_jit_on(void)
{
    const char *mode = zend_ini_string("opcache.jit", sizeof "opcache.jit" - 1, 1);
    return mode && strcasecmp(mode, "disable") != 0 &&
           zend_ini_long("opcache.jit_buffer_size", sizeof "opcache.jit_buffer_size" - 1, 1) > 0;
}

/* Why a list cannot hold for one request; NULL: it can. */
static const char *obstacle(bool is_functions)
{
    /* Its closures, objects and methods are there already, and would still call what is disabled. */
    if (settings.worker)
        return "in worker mode";
    return is_functions && is_jit_on() ? "with opcache.jit" : NULL;
}

void disabled_add(zend_string *name, zend_string *list)
{
    bool is_functions = strcmp(ZSTR_VAL(name), FUNCTIONS) == 0;
    const char *why = obstacle(is_functions);
    if (why) {
        char message[256];
        snprintf(message, sizeof message, "PHP_ADMIN_VALUE: \"%s\" cannot hold for one request %s; the request is refused", ZSTR_VAL(name), why);
        request_log(message);
        is_refused = true;
        return;
    }
    zend_string *lower = zend_string_tolower(list);
    for (const char *at = ZSTR_VAL(lower); *(at += strspn(at, " ,"));) {
        size_t length = strcspn(at, " ,");
        if (is_functions)
            disable_function(at, length);
        else
            disable_class(at, length);
        at += length;
    }
    zend_string_release(lower);
    /* What scripts ask by ini_get(). */
    const char *before = zend_ini_string(ZSTR_VAL(name), ZSTR_LEN(name), 0);
    zend_string *all = strpprintf(0, "%s%s%s", before ? before : "", before && *before ? "," : "", ZSTR_VAL(list));
    zend_alter_ini_entry_ex(name, all, PHP_INI_SYSTEM, PHP_INI_STAGE_ACTIVATE, true);
    zend_string_release(all);
}

bool disabled_refuses(void)
{
    return is_refused;
}

void disabled_end(void)
{
    while (count > 0) {
        count--;
        disabled[count].function->handler = disabled[count].handler;
    }
    is_refused = false;
}
