/*
 * What the server's own commands ask of a worker (`brisk php check`, `brisk php precompile`): a parameter BRISK_ASKS, which no client can
 * send, as parameters of header fields begin with HTTP_, and no site's file, as the server keeps the name to itself.
 */
#include "brisk_php.h"
#include "sapi.h"

#include "ext/json/php_json.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"

#include <string.h>

/* Calls a function of PHP's; false if there is none of this name. */
static bool call(zval *result, const char *name, uint32_t count, zval *arguments)
{
    ZVAL_FALSE(result);
    if (!zend_hash_str_exists(EG(function_table), name, strlen(name)))
        return false;
    zval function;
    ZVAL_STRING(&function, name);
    bool is_done = call_user_function(NULL, NULL, &function, result, count, arguments) == SUCCESS;
    zval_ptr_dtor(&function);
    return is_done;
}

static void add_call(zval *all, const char *as, const char *name, bool argument)
{
    zval result, arguments[1];
    ZVAL_BOOL(&arguments[0], argument);
    call(&result, name, strcmp(name, "realpath_cache_size") == 0 ? 0 : 1, arguments);
    add_assoc_zval(all, as, &result);
}

/* How the caches stand, as JSON. The realpath cache is this worker's; the others are the pool's. */
static void answer_state(void)
{
    static const char *const SETTINGS[] = {
        "opcache.enable", "opcache.memory_consumption", "opcache.interned_strings_buffer", "opcache.max_accelerated_files",
        "opcache.validate_timestamps", "opcache.file_cache", "opcache.jit_buffer_size", "realpath_cache_size", "open_basedir", "apc.shm_size",
    };
    zval all, ini;
    array_init(&all);
    add_call(&all, "opcache", "opcache_get_status", false);
    add_call(&all, "realpath_used", "realpath_cache_size", false);
    add_call(&all, "apcu", "apcu_sma_info", true);
    array_init(&ini);
    for (size_t at = 0; at < sizeof SETTINGS / sizeof *SETTINGS; at++) {
        const char *value = zend_ini_string(SETTINGS[at], strlen(SETTINGS[at]), 0);
        if (value)
            add_assoc_string(&ini, SETTINGS[at], value);
    }
    add_assoc_zval(&all, "ini", &ini);
    smart_str text = {0};
    php_json_encode(&text, &all, PHP_JSON_PARTIAL_OUTPUT_ON_ERROR);
    smart_str_0(&text);
    if (text.s)
        PHPWRITE(ZSTR_VAL(text.s), ZSTR_LEN(text.s));
    smart_str_free(&text);
    zval_ptr_dtor(&all);
}

/* Compiles a file into OPcache without running it. What is wrong with it is the answer, whatever the pool displays. */
static void answer_compile(const char *path)
{
    zval result, cached, arguments[1];
    ZVAL_STRING(&arguments[0], path);
    ZVAL_FALSE(&cached);
    zend_uchar displays = PG(display_errors);
    volatile bool is_compiled = false;
    PG(display_errors) = 0;
    zend_try {
        call(&result, "opcache_compile_file", 1, arguments);
        /* In worker mode a script is running, which a mistake of another one would be thrown into. */
        if (EG(exception))
            zend_exception_error(EG(exception), E_WARNING);
        is_compiled = Z_TYPE(result) == IS_TRUE;
        call(&cached, "opcache_is_script_cached", 1, arguments);
    } zend_catch {
        is_compiled = false;
    } zend_end_try();
    PG(display_errors) = displays;
    if (is_compiled && Z_TYPE(cached) == IS_TRUE)
        PUTS("compiled");
    else if (is_compiled)
        PUTS("OPcache has not kept it: it is younger than opcache.file_update_protection (2 s), or there is no room");
    else if (PG(last_error_message))
        php_printf("%s in line %d", ZSTR_VAL(PG(last_error_message)), PG(last_error_lineno));
    else
        PUTS("OPcache does not take it");
    zval_ptr_dtor(&arguments[0]);
}

bool request_answer_command(void)
{
    const char *asks = param_get("BRISK_ASKS");
    if (!asks)
        return false;
    /* There need not be a script of the request's name. */
    SG(sapi_headers).http_response_code = 200;
    if (strcmp(asks, "state") == 0)
        answer_state();
    else if (strcmp(asks, "compile") == 0 && SG(request_info).path_translated)
        answer_compile(SG(request_info).path_translated);
    else
        PUTS("unknown question");
    return true;
}
