/*
 * Worker mode: a script that stays in memory and answers one request after the other, by frankenphp_handle_request(), which what was written
 * for FrankenPHP calls. PHP believes all of it to be one long request; what belongs to one answer is begun and ended here: superglobals, the
 * session, settings, output layers, headers, the body of the request, the last error. What the script itself keeps it means to keep.
 */
#include "brisk_php.h"
#include "sapi.h"

#include "ext/json/php_json.h"
#include "ext/session/php_session.h"
#include "ext/spl/spl_exceptions.h"
#include "php_ini.h"
#include "php_main.h"
#include "php_output.h"
#include "php_variables.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"
#include "zend_smart_str.h"

#include <string.h>
#include <unistd.h>

/* What the script does. */
static enum { NO_SCRIPT, BEGINS, WAITS, ANSWERS } stage;
static bool has_answered;
/* The settings as the script had them when it began to wait: name and value. */
static HashTable own_settings;

/* Null where PHP was built without sessions, or has them in a library of their own. */
#pragma weak ps_globals
/* The session handlers that the script has set before its first request: the session's end forgets them. */
static zval own_handlers[PS_NUM_APIS];

/* $_ENV as the script had it then, with what it has read from files: not set where it has not looked at it. */
static zval own_environment;

static bool has_sessions(void)
{
    return &ps_globals != NULL;
}

static void keep_environment(void)
{
    zval *environment = zend_hash_str_find_deref(&EG(symbol_table), "_ENV", sizeof "_ENV" - 1);
    if (environment && Z_TYPE_P(environment) == IS_ARRAY)
        ZVAL_COPY(&own_environment, environment);
}

static void give_environment(void)
{
    if (Z_ISUNDEF(own_environment))
        return;
    zval copy;
    ZVAL_COPY(&copy, &own_environment);
    zend_hash_str_update(&EG(symbol_table), "_ENV", sizeof "_ENV" - 1, &copy);
}

static void keep_handlers(void)
{
    for (int at = 0; has_sessions() && at < PS_NUM_APIS; at++)
        ZVAL_COPY(&own_handlers[at], &PS(mod_user_names).names[at]);
}

/* After a request's session has ended, and before the next one begins. */
static void give_handlers(void)
{
    for (int at = 0; has_sessions() && at < PS_NUM_APIS; at++)
        ZVAL_COPY(&PS(mod_user_names).names[at], &own_handlers[at]);
}

static void forget_own(void)
{
    zend_hash_destroy(&own_settings);
    zval_ptr_dtor(&own_environment);
    ZVAL_UNDEF(&own_environment);
    for (int at = 0; has_sessions() && at < PS_NUM_APIS; at++) {
        zval_ptr_dtor(&own_handlers[at]);
        ZVAL_UNDEF(&own_handlers[at]);
    }
}

/* Extensions that keep something of one request. */
static const char *const PER_REQUEST[] = {"filter", "session"};

static void each_module(bool begins)
{
    for (size_t at = 0; at < sizeof PER_REQUEST / sizeof *PER_REQUEST; at++) {
        zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, PER_REQUEST[at], strlen(PER_REQUEST[at]));
        if (module && begins && module->request_startup_func)
            module->request_startup_func(module->type, module->module_number);
        else if (module && !begins && module->request_shutdown_func)
            module->request_shutdown_func(module->type, module->module_number);
    }
}

static void note_settings(void)
{
    zend_string *name;
    zend_ini_entry *entry;
    zend_hash_init(&own_settings, 8, NULL, ZVAL_PTR_DTOR, 0);
    if (!EG(modified_ini_directives))
        return;
    ZEND_HASH_FOREACH_STR_KEY_PTR(EG(modified_ini_directives), name, entry) {
        zval value;
        ZVAL_STRINGL(&value, entry->value ? ZSTR_VAL(entry->value) : "", entry->value ? ZSTR_LEN(entry->value) : 0);
        zend_hash_update(&own_settings, name, &value);
    } ZEND_HASH_FOREACH_END();
}

/* Settings that a request has changed have the values again that the script had set, or those of php.ini. */
static void restore_settings(void)
{
    zend_string *name;
    zend_ini_entry *entry;
    if (!EG(modified_ini_directives))
        return;
    /* Restoring takes an entry out of the table: the names are gathered first. */
    zend_string **changed = safe_emalloc(zend_hash_num_elements(EG(modified_ini_directives)) + 1, sizeof *changed, 0);
    size_t count = 0;
    ZEND_HASH_FOREACH_STR_KEY_PTR(EG(modified_ini_directives), name, entry) {
        if (!zend_hash_exists(&own_settings, name))
            changed[count++] = zend_string_copy(name);
    } ZEND_HASH_FOREACH_END();
    /* The session's handlers that the script has set are given back with this setting. */
    if (has_sessions())
        PS(set_handler) = 1;
    for (size_t at = 0; at < count; at++) {
        zend_restore_ini_entry(changed[at], PHP_INI_STAGE_DEACTIVATE);
        zend_string_release(changed[at]);
    }
    /* The script's own, which a request may have set, locked (PHP_ADMIN_VALUE) or taken back (ini_restore()). As at the end of a request: a script
       at run time may not give a narrowed open_basedir its former value, nor change settings of sessions when the head of an answer was sent. */
    zval *had;
    ZEND_HASH_FOREACH_STR_KEY_VAL(&own_settings, name, had) {
        entry = zend_hash_find_ptr(EG(ini_directives), name);
        if (!entry)
            continue;
        if (entry->modified)
            entry->modifiable = entry->orig_modifiable;
        if (entry->value ? !zend_string_equals(Z_STR_P(had), entry->value) : Z_STRLEN_P(had) > 0)
            zend_alter_ini_entry_ex(name, Z_STR_P(had), PHP_INI_USER, PHP_INI_STAGE_DEACTIVATE, true);
    } ZEND_HASH_FOREACH_END();
    if (has_sessions())
        PS(set_handler) = 0;
    efree(changed);
}

/* Whether a stream of php://input that the script holds reads this body: it does not count as a use of it. What such a stream has for
   itself begins with the body. */
static bool is_read(const php_stream *body)
{
    zval *entry;
    ZEND_HASH_FOREACH_VAL(&EG(regular_list), entry) {
        const zend_resource *resource = Z_RES_P(entry);
        const php_stream *stream = resource->ptr;
        if (resource->type == php_file_le_stream() && stream && strcmp(stream->ops->label, "Input") == 0 && *(php_stream **)stream->abstract == body)
            return true;
    } ZEND_HASH_FOREACH_END();
    return false;
}

static void forget_body(void)
{
    php_stream *body = SG(request_info).request_body;
    if (body && !is_read(body))
        zend_list_delete(body->res);
    SG(request_info).request_body = NULL;
}

static void forget_globals(void)
{
    for (int at = 0; at < NUM_TRACK_VARS; at++) {
        zval_ptr_dtor(&PG(http_globals)[at]);
        ZVAL_UNDEF(&PG(http_globals)[at]);
    }
    /* A session's is no superglobal that is made anew: without one the next request would read the last one's. */
    static const char *const NAMES[] = {"_SESSION", "_SERVER", "_GET", "_POST", "_COOKIE", "_FILES", "_REQUEST", "_ENV"};
    for (size_t at = 0; at < sizeof NAMES / sizeof *NAMES; at++)
        zend_hash_str_del(&EG(symbol_table), NAMES[at], strlen(NAMES[at]));
}

static void forget_error(void)
{
    if (PG(last_error_message))
        zend_string_release(PG(last_error_message));
    if (PG(last_error_file))
        zend_string_release(PG(last_error_file));
    PG(last_error_message) = PG(last_error_file) = NULL;
    PG(last_error_type) = PG(last_error_lineno) = 0;
}

/* Ends what belongs to one answer. The order is PHP's own at the end of a request. */
static void end_answer(void)
{
    zend_try {
        php_output_end_all();
    } zend_end_try();
    zend_unset_timeout();
    zend_try {
        each_module(false);
    } zend_end_try();
    zend_try {
        php_output_deactivate();
    } zend_end_try();
    /* PHP itself leaves it to the end of everything. */
    forget_body();
    zend_try {
        sapi_deactivate_module();
    } zend_end_try();
    sapi_deactivate_destroy();
    SG(request_info).content_type_dup = NULL;
    SG(request_info).current_user = NULL;
    if (!Z_ISUNDEF(SG(callback_func))) {
        zval_ptr_dtor(&SG(callback_func));
        ZVAL_UNDEF(&SG(callback_func));
    }
    forget_error();
    EG(exit_status) = 0;
}

/* The beginning of an answer: as in php_request_startup(), without what the script keeps. */
static void begin_answer(void)
{
    php_output_activate();
    PG(header_is_being_sent) = 0;
    PG(connection_status) = PHP_CONNECTION_NORMAL;
    sapi_activate();
    zend_set_timeout(EG(timeout_seconds), 1);
    if (PG(expose_php))
        sapi_add_header(SAPI_PHP_VERSION_HEADER, sizeof SAPI_PHP_VERSION_HEADER - 1, 1);
    if (PG(output_buffering))
        php_output_start_user(NULL, PG(output_buffering) > 1 ? (size_t)PG(output_buffering) : 0, PHP_OUTPUT_HANDLER_STDFLAGS);
    else if (PG(implicit_flush))
        php_output_set_implicit_flush(1);
    /* Not before: the script may end its work with them when the answer was sent. */
    forget_globals();
    php_hash_environment();
    /* The script is compiled already, so those that are made when they are first seen would not be made. */
    static const char *const LATE[] = {"_SERVER", "_REQUEST", "_ENV"};
    for (size_t at = 0; at < sizeof LATE / sizeof *LATE; at++)
        zend_is_auto_global_str(LATE[at], strlen(LATE[at]));
    give_environment();
    give_handlers();
    each_module(true);
    SG(sapi_started) = 1;
}

static void forget_path(void)
{
    if (SG(request_info).path_translated)
        efree(SG(request_info).path_translated);
    SG(request_info).path_translated = NULL;
}

/* Takes a request whose parameters have come. */
static void take(void)
{
    SG(server_context) = &exchange;
    request_begin_log();
    request_prepare();
    /* `brisk php precompile` names the file that it asks about. */
    if (!param_get("BRISK_ASKS")) {
        forget_path();
        SG(request_info).path_translated = estrdup(settings.worker);
    }
    SG(sapi_headers).http_response_code = 200;
    request_apply_values();
    begin_answer();
    request_note();
}

static void finish(void)
{
    own_slot->memory_bytes = zend_memory_peak_usage(true);
    own_slot->state = SLOT_FINISHING;
    access_log_write();
    end_answer();
    fastcgi_end(0, false);
    forget_path();
    SG(server_context) = NULL;
    restore_settings();
    worker_answered();
    has_answered = true;
}

/* An exception that the script did not catch, in the answer that it spoiled. exit() is none. */
static void tell_exception(void)
{
    if (!EG(exception) || zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception)))
        return;
    if (!SG(headers_sent))
        SG(sapi_headers).http_response_code = 500;
    zend_exception_error(EG(exception), E_WARNING);
    zend_clear_exception();
}

PHP_FUNCTION(frankenphp_handle_request)
{
    zend_fcall_info call;
    zend_fcall_info_cache cache;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_FUNC(call, cache)
    ZEND_PARSE_PARAMETERS_END();
    if (stage != BEGINS && stage != WAITS) {
        zend_throw_exception(spl_ce_RuntimeException, "frankenphp_handle_request() is for the script of a pool's worker setting", 0);
        RETURN_THROWS();
    }
    if (stage == BEGINS) {
        keep_environment();
        keep_handlers();
        end_answer();
        note_settings();
        stage = WAITS;
    }
    do {
        if (!worker_next())
            RETURN_FALSE;
        /* From here on there is a request, which is answered even if the memory does not suffice to take it. */
        stage = ANSWERS;
        take();
        if (!request_answer_command() && !request_answer_itself())
            break;
        stage = WAITS;
        finish();
    } while (true);
    zval result;
    ZVAL_UNDEF(&result);
    call.retval = &result;
    if (zend_call_function(&call, &cache) == SUCCESS)
        zval_ptr_dtor(&result);
    bool has_exited = EG(exception) && (zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception)));
    tell_exception();
    /* After exit() the script is begun anew, which ends the answer, too. */
    if (has_exited)
        return;
    stage = WAITS;
    finish();
    RETURN_TRUE;
}

/* FrankenPHP's numbers. */
static const struct {
    const char *constant, *name;
    zend_long number;
} LEVELS[] = {
    {"FRANKENPHP_LOG_LEVEL_DEBUG", "debug", -4},
    {"FRANKENPHP_LOG_LEVEL_INFO", "info", 0},
    {"FRANKENPHP_LOG_LEVEL_WARN", "warn", 4},
    {"FRANKENPHP_LOG_LEVEL_ERROR", "error", 8},
};

void loop_begin(int type, int module_number)
{
    int flags = CONST_CS | (type == MODULE_PERSISTENT ? CONST_PERSISTENT : 0);
    for (size_t at = 0; at < sizeof LEVELS / sizeof *LEVELS; at++)
        zend_register_long_constant(LEVELS[at].constant, strlen(LEVELS[at].constant), LEVELS[at].number, flags, module_number);
}

/* A message with a level, and what belongs to it as JSON. */
PHP_FUNCTION(frankenphp_log)
{
    zend_string *message;
    zend_long level = 0;
    zval *context = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_STR(message)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(level)
        Z_PARAM_ARRAY(context)
    ZEND_PARSE_PARAMETERS_END();
    const char *name = LEVELS[0].name;
    for (size_t at = 1; at < sizeof LEVELS / sizeof *LEVELS && LEVELS[at].number <= level; at++)
        name = LEVELS[at].name;
    smart_str text = {0};
    smart_str_appends(&text, name);
    smart_str_appends(&text, ": ");
    smart_str_append(&text, message);
    if (context && zend_hash_num_elements(Z_ARRVAL_P(context)) > 0) {
        smart_str_appendc(&text, ' ');
        int options = PHP_JSON_UNESCAPED_SLASHES | PHP_JSON_UNESCAPED_UNICODE | PHP_JSON_INVALID_UTF8_SUBSTITUTE | PHP_JSON_PARTIAL_OUTPUT_ON_ERROR;
        php_json_encode(&text, context, options);
    }
    smart_str_0(&text);
    sapi_module.log_message(ZSTR_VAL(text.s), 0);
    smart_str_free(&text);
}

/* Runs the script until it ends. False: it has answered nothing. */
static bool run_script(void)
{
    zend_file_handle file;
    has_answered = false;
    stage = BEGINS;
    SG(server_context) = NULL;
    memset(&SG(request_info), 0, sizeof SG(request_info));
    SG(request_info).no_headers = true;
    SG(request_info).path_translated = estrdup(settings.worker);
    own_slot->state = SLOT_STARTING;
    zend_first_try {
        if (!php_start_request())
            fail("PHP could not begin the script %s", settings.worker);
        SG(request_info).no_headers = true;
        zend_stream_init_filename(&file, settings.worker);
        file.primary_script = true;
        php_execute_script(&file);
        zend_destroy_file_handle(&file);
    } zend_end_try();
    bool was_answering = stage == ANSWERS;
    if (was_answering) {
        own_slot->memory_bytes = zend_memory_peak_usage(true);
        own_slot->state = SLOT_FINISHING;
        access_log_write();
    }
    if (stage == WAITS || was_answering)
        forget_own();
    stage = NO_SCRIPT;
    zend_first_try {
        php_request_shutdown(NULL);
    } zend_end_try();
    /* php_request_shutdown() has freed it with all of the request's memory. */
    SG(request_info).path_translated = NULL;
    if (was_answering) {
        fastcgi_end(0, false);
        worker_answered();
        has_answered = true;
    }
    SG(server_context) = NULL;
    return has_answered;
}

void php_run_worker(void)
{
    while (!is_draining) {
        if (!run_script() && !is_draining) {
            /* The master waits before it begins another one. */
            say(LEVEL_ERROR, "the script %s of pool %s has ended without an answer", settings.worker, settings.pool);
            _exit(1);
        }
    }
}
