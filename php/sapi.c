/*
 * The interface to PHP. It is named as FPM's, because OPcache starts only under names that it knows, and because applications ask for
 * that name. php_embed_init() is not used: it begins a request in the process that is to be forked.
 */
#include "brisk_php.h"
#include "sapi.h"

#include "ext/standard/head.h"
#include "ext/standard/info.h"
#include "fopen_wrappers.h"
#include "http_status_codes.h"
#include "php_ini.h"
#include "php_main.h"
#include "php_output.h"
#include "php_variables.h"
#include "zend_alloc.h"
#include "zend_extensions.h"
#include "zend_signal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct cgi_settings cgi;
static bool is_worker;
static bool has_logged;
static void (*import_process_environment)(zval *array);

/* Output and headers. */

static size_t write_output(const char *bytes, size_t count)
{
    /* Outside of a request: what is printed while PHP starts, or by the script of worker mode before it answers. */
    if (!is_worker || !SG(server_context))
        return (size_t)fwrite(bytes, 1, count, stderr);
    /* After fastcgi_finish_request(): the client has all of its answer, and has not gone for that reason. */
    if (exchange.is_ended)
        return count;
    if (!fastcgi_write(bytes, count)) {
        php_handle_aborted_connection();
        return 0;
    }
    return count;
}

static void flush_output(void *context)
{
    if (!is_worker || !context)
        return;
    sapi_send_headers();
    if (!fastcgi_flush())
        php_handle_aborted_connection();
}

static void put_line(const char *line, size_t length)
{
    write_output(line, length);
    write_output("\r\n", 2);
}

static const char *reason(int code)
{
    for (const http_response_status_code_pair *pair = http_status_map; pair->code; pair++)
        if (pair->code == code)
            return pair->str;
    return NULL;
}

#define IS_FIELD(header, name) ((header)->header_len > sizeof(name) - 1 && strncasecmp((header)->header, name, sizeof(name) - 1) == 0)

/* The status line, unless a header "Status" is to be it; gives the status that counts. */
static int put_status(sapi_headers_struct *headers, bool *has_status)
{
    int code = headers->http_response_code;
    const char *line = headers->http_status_line;
    if (!cgi.nph && code == 200)
        return code;
    const char *space = line ? strchr(line, ' ') : NULL;
    if (cgi.rfc2616_headers && line) {
        put_line(line, strlen(line));
        *has_status = true;
        return space ? atoi(space + 1) : code;
    }
    char text[1024];
    if (space && space - line >= 5 && strncasecmp(line, "HTTP/", 5) == 0) {
        int length = snprintf(text, sizeof text, "Status:%s", space);
        put_line(text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
        *has_status = true;
        return atoi(space + 1);
    }
    zend_llist_position at;
    for (sapi_header_struct *header = zend_llist_get_first_ex(&headers->headers, &at); header;
         header = zend_llist_get_next_ex(&headers->headers, &at))
        if (IS_FIELD(header, "Status:"))
            return code;
    const char *why = reason(code);
    int length = snprintf(text, sizeof text, why ? "Status: %d %s" : "Status: %d", code, why);
    put_line(text, (size_t)length);
    *has_status = true;
    return code;
}

static int send_headers(sapi_headers_struct *headers)
{
    if (SG(request_info).no_headers)
        return SAPI_HEADER_SENT_SUCCESSFULLY;
    bool has_status = false;
    int code = put_status(headers, &has_status);
    zend_llist_position at;
    for (sapi_header_struct *header = zend_llist_get_first_ex(&headers->headers, &at); header;
         header = zend_llist_get_next_ex(&headers->headers, &at)) {
        if (header->header_len == 0)
            continue;
        if (IS_FIELD(header, "Status:")) {
            if (has_status)
                continue;
            has_status = true;
        } else if (code == 304 && IS_FIELD(header, "Content-Type:")) {
            continue;
        }
        put_line(header->header, header->header_len);
    }
    write_output("\r\n", 2);
    return SAPI_HEADER_SENT_SUCCESSFULLY;
}

/* Input. */

static size_t read_post(char *buffer, size_t count)
{
    zend_long left = SG(request_info).content_length - SG(read_post_bytes);
    if (left <= 0)
        return 0;
    return fastcgi_read(buffer, (size_t)left < count ? (size_t)left : count);
}

static char *read_cookies(void)
{
    return param_get("HTTP_COOKIE");
}

static char *get_variable(const char *name, size_t length)
{
    (void)length;
    return SG(server_context) ? param_get(name) : getenv(name);
}

/* In the order in which FPM has them: the last one first. */
static void each_param(void (*each)(struct param *param, zval *array), zval *array)
{
    for (size_t at = exchange.param_count; at-- > 0;)
        if (exchange.params[at].value)
            each(&exchange.params[at], array);
}

static void register_filtered(struct param *param, zval *array)
{
    bool is_env = Z_TYPE(PG(http_globals)[TRACK_VARS_ENV]) == IS_ARRAY && Z_ARR_P(array) == Z_ARR(PG(http_globals)[TRACK_VARS_ENV]);
    char *value = param->value;
    size_t length;
    if (sapi_module.input_filter(is_env ? PARSE_ENV : PARSE_SERVER, param->name, &value, strlen(value), &length))
        php_register_variable_safe(param->name, value, length, array);
}

static void register_plain(struct param *param, zval *array)
{
    php_register_variable_safe(param->name, param->value, param->value_length, array);
}

/* $_ENV and $_SERVER: the second one of them to be made begins as a copy of the first, as FPM's does. */
static bool copy_other(zval *array)
{
    static const int BOTH[] = {TRACK_VARS_ENV, TRACK_VARS_SERVER};
    for (int at = 0; at < 2; at++) {
        const zval *other = &PG(http_globals)[BOTH[at]];
        if (Z_TYPE_P(other) != IS_ARRAY || Z_ARR_P(other) == Z_ARR_P(array) || zend_hash_num_elements(Z_ARRVAL_P(other)) == 0)
            continue;
        zend_array_destroy(Z_ARR_P(array));
        Z_ARR_P(array) = zend_array_dup(Z_ARR_P(other));
        return true;
    }
    return false;
}

static void import_environment(zval *array)
{
    if (SG(server_context) && copy_other(array))
        return;
    import_process_environment(array);
    if (SG(server_context))
        each_param(register_filtered, array);
}

static void load_environment(zval *array)
{
    import_process_environment(array);
    if (SG(server_context))
        each_param(register_plain, array);
}

/* For the script of worker mode before it answers: where it lies, which applications load themselves by, and that it stays in memory. */
static void register_script(zval *array)
{
    static const char *const NAMES[] = {"SCRIPT_FILENAME", "SCRIPT_NAME", "PHP_SELF", "PATH_TRANSLATED"};
    for (size_t at = 0; at < sizeof NAMES / sizeof *NAMES; at++)
        php_register_variable_safe(NAMES[at], settings.worker, strlen(settings.worker), array);
    php_register_variable_safe("FRANKENPHP_WORKER", "1", 1, array);
}

static void register_variables(zval *array)
{
    php_import_environment_variables(array);
    if (settings.worker && !SG(server_context)) {
        register_script(array);
        return;
    }
    const char *name = SG(request_info).request_uri ? SG(request_info).request_uri : "";
    const char *path_info = cgi.fix_pathinfo ? param_get("PATH_INFO") : NULL;
    char *self;
    size_t length = spprintf(&self, 0, "%s%s", name, path_info ? path_info : "");
    if (sapi_module.input_filter(PARSE_SERVER, "PHP_SELF", &self, length, &length))
        php_register_variable_safe("PHP_SELF", self, length, array);
    efree(self);
}

/* Messages. */

/* To the server's error log, by the request's connection. */
void request_log(const char *message)
{
    if (!cgi.logging)
        return;
    if (has_logged)
        fastcgi_log("; ", 2);
    has_logged = true;
    fastcgi_log(message, strlen(message));
}

void request_begin_log(void)
{
    has_logged = false;
}

static void log_message(const char *message, int type)
{
    (void)type;
    if (!is_worker || !SG(server_context) || exchange.is_ended) {
        /* Of a request whose answer has ended it is as grave as before; the rest is what PHP says at its start. Each line of it is a message: one
           that a script has made would else stand in the log with the level that it names. */
        enum level level = is_worker && SG(server_context) ? LEVEL_ERROR : LEVEL_NOTICE;
        for (const char *line = message, *next; line; line = next) {
            int length = (int)strcspn(line, "\n");
            next = line[length] && line[length + 1] ? line + length + 1 : NULL;
            say(level, "PHP message: %.*s", length, line);
        }
        return;
    }
    char *text;
    spprintf(&text, 0, "PHP message: %s", message);
    request_log(text);
    efree(text);
}

/* Functions of PHP. */

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_bool, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_array, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_status, 0, 0, MAY_BE_ARRAY | MAY_BE_FALSE)
ZEND_END_ARG_INFO()

PHP_FUNCTION(fastcgi_finish_request)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (exchange.is_ended)
        RETURN_FALSE;
    /* What the script may still read is taken first: nothing more can come afterwards. */
    if (!SG(post_read) && SG(request_info).content_length > 0 && !SG(request_info).request_body)
        sapi_read_standard_form_data();
    php_output_end_all();
    php_header();
    /* The worker is busy with the rest of the script: the connection serves no other request. */
    exchange.is_kept = false;
    fastcgi_end(0, true);
    own_slot->is_finished = true;
    RETURN_TRUE;
}

static void add_header(struct param *param, zval *array)
{
    sapi_add_request_header(param->name, param->name_length, param->value, param->value_length, array);
}

PHP_FUNCTION(apache_request_headers)
{
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    if (SG(server_context))
        each_param(add_header, return_value);
}

PHP_FUNCTION(apache_response_headers)
{
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    zend_llist_position at;
    for (sapi_header_struct *header = zend_llist_get_first_ex(&SG(sapi_headers).headers, &at); header;
         header = zend_llist_get_next_ex(&SG(sapi_headers).headers, &at)) {
        const char *colon = memchr(header->header, ':', header->header_len);
        if (!colon || colon == header->header)
            continue;
        const char *value = colon + 1, *end = header->header + header->header_len;
        while (value < end && (*value == ' ' || *value == '\t'))
            value++;
        add_assoc_stringl_ex(return_value, header->header, (size_t)(colon - header->header), (char *)value, (size_t)(end - value));
    }
}

/* An answer's head at once; with a status below 200 one that goes before it (RFC 9110, 15.2), of the headers that there are. */
PHP_FUNCTION(headers_send)
{
    zend_long status = 200;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(status)
    ZEND_PARSE_PARAMETERS_END();
    if (status < 100 || status > 599 || status == 101) {
        zend_argument_value_error(1, "must be a status from 100 to 599, and not 101");
        RETURN_THROWS();
    }
    if (!SG(server_context) || exchange.is_ended || SG(headers_sent))
        RETURN_LONG(SAPI_HEADER_SEND_FAILED);
    if (status >= 200) {
        SG(sapi_headers).http_response_code = (int)status;
        RETURN_LONG(sapi_send_headers());
    }
    int code = SG(sapi_headers).http_response_code;
    char *line = SG(sapi_headers).http_status_line;
    SG(sapi_headers).http_response_code = (int)status;
    SG(sapi_headers).http_status_line = NULL;
    int sent = send_headers(&SG(sapi_headers));
    SG(sapi_headers).http_response_code = code;
    SG(sapi_headers).http_status_line = line;
    if (!fastcgi_flush())
        php_handle_aborted_connection();
    RETURN_LONG(sent);
}

PHP_FUNCTION(fpm_get_status)
{
    ZEND_PARSE_PARAMETERS_NONE();
    status_array(return_value);
}

PHP_FUNCTION(frankenphp_handle_request);

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_handle, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, callback, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

PHP_FUNCTION(frankenphp_log);

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_log, 0, 1, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, message, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, level, IS_LONG, 0, "0")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, context, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_send, 0, 0, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()

/* FPM's functions, and those of FrankenPHP that scripts call for what is here, too. */
static const zend_function_entry FUNCTIONS[] = {
    PHP_FE(frankenphp_handle_request, arginfo_handle)
    PHP_FE(frankenphp_log, arginfo_log)
    PHP_FE(headers_send, arginfo_send)
    PHP_FE(fastcgi_finish_request, arginfo_bool)
    PHP_FALIAS(frankenphp_finish_request, fastcgi_finish_request, arginfo_bool)
    PHP_FE(apache_request_headers, arginfo_array)
    PHP_FALIAS(getallheaders, apache_request_headers, arginfo_array)
    PHP_FALIAS(frankenphp_request_headers, apache_request_headers, arginfo_array)
    PHP_FE(apache_response_headers, arginfo_array)
    PHP_FALIAS(frankenphp_response_headers, apache_response_headers, arginfo_array)
    PHP_FE(fpm_get_status, arginfo_status)
    PHP_FE_END
};

PHP_INI_BEGIN()
    STD_PHP_INI_BOOLEAN("cgi.rfc2616_headers", "0", PHP_INI_ALL, OnUpdateBool, rfc2616_headers, struct cgi_settings, cgi)
    STD_PHP_INI_BOOLEAN("cgi.nph", "0", PHP_INI_ALL, OnUpdateBool, nph, struct cgi_settings, cgi)
    STD_PHP_INI_BOOLEAN("cgi.fix_pathinfo", "1", PHP_INI_SYSTEM, OnUpdateBool, fix_pathinfo, struct cgi_settings, cgi)
    STD_PHP_INI_BOOLEAN("cgi.discard_path", "0", PHP_INI_SYSTEM, OnUpdateBool, discard_path, struct cgi_settings, cgi)
    STD_PHP_INI_BOOLEAN("fastcgi.script_path_encoded", "0", PHP_INI_SYSTEM, OnUpdateBool, script_path_encoded, struct cgi_settings, cgi)
    STD_PHP_INI_BOOLEAN("fastcgi.logging", "1", PHP_INI_SYSTEM, OnUpdateBool, logging, struct cgi_settings, cgi)
    STD_PHP_INI_ENTRY("fastcgi.error_header", NULL, PHP_INI_SYSTEM, OnUpdateString, error_header, struct cgi_settings, cgi)
PHP_INI_END()

static PHP_MINIT_FUNCTION(pool)
{
    REGISTER_INI_ENTRIES();
    loop_begin(type, module_number);
    return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(pool)
{
    (void)type;
    UNREGISTER_INI_ENTRIES();
    return SUCCESS;
}

static PHP_MINFO_FUNCTION(pool)
{
    php_info_print_table_start();
    php_info_print_table_row(2, "php-fpm", "active");
    php_info_print_table_row(2, "Pool master", "Brisk");
    php_info_print_table_end();
    display_ini_entries(zend_module);
}

static zend_module_entry pool_module = {
    STANDARD_MODULE_HEADER, "cgi-fcgi", FUNCTIONS, PHP_MINIT(pool), PHP_MSHUTDOWN(pool), NULL, NULL, PHP_MINFO(pool), PHP_VERSION,
    STANDARD_MODULE_PROPERTIES,
};

static int startup(sapi_module_struct *module)
{
    return php_module_startup(module, &pool_module);
}

#if PHP_VERSION_ID < 80400
/* Called by PHP when a request begins, and when it starts: then there is no request yet. */
static int activate(void)
{
    return SG(server_context) ? request_apply_folders() : SUCCESS;
}
#endif

static sapi_module_struct interface = {
    .name = "fpm-fcgi",
    .pretty_name = "FPM/FastCGI",
    .startup = startup,
    .shutdown = php_module_shutdown_wrapper,
#if PHP_VERSION_ID < 80400
    .activate = activate,
#else
    .pre_request_init = request_apply_folders,
#endif
    .ub_write = write_output,
    .flush = flush_output,
    .getenv = get_variable,
    .sapi_error = php_error,
    .send_headers = send_headers,
    .read_post = read_post,
    .read_cookies = read_cookies,
    .register_server_variables = register_variables,
    .log_message = log_message,
};

/* Beginning and end. */

/* The pool's values as text of an ini file, which counts for everything that PHP reads at its start. */
static char *ini_text(void)
{
    size_t room = 256;
    const struct pair *lists[] = {settings.values, settings.admin_values};
    const size_t counts[] = {settings.value_count, settings.admin_value_count};
    for (int list = 0; list < 2; list++)
        for (size_t at = 0; at < counts[list]; at++)
            room += 2 * strlen(lists[list][at].name) + 2 * strlen(lists[list][at].value) + 16;
    char *text = malloc(room), *to = text;
    if (!text)
        fail("no memory for the pool's php_value settings");
    *to = 0;
    for (int list = 0; list < 2; list++) {
        for (size_t at = 0; at < counts[list]; at++) {
            const char *name = lists[list][at].name;
            to += sprintf(to, "%s=\"", name);
            /* What php.ini disables, and the pool's lines before this one, stays disabled, as in FPM. */
            if (disabled_is_list(name))
                to += sprintf(to, "${%s},", name);
            for (const char *from = lists[list][at].value; *from; from++) {
                if (*from == '"' || *from == '\\' || *from == '$')
                    *to++ = '\\';
                *to++ = *from;
            }
            to += sprintf(to, "\"\n");
        }
    }
    return text;
}

/* What an administrator has set no script changes. */
static void lock_admin_values(void)
{
    for (size_t at = 0; at < settings.admin_value_count; at++) {
        const char *name = settings.admin_values[at].name;
        zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), name, strlen(name));
        if (entry)
            entry->modifiable = PHP_INI_SYSTEM;
    }
}

/*
 * PHP puts its own handlers of seven signals in place before each request, in case that a script has changed them. Only pcntl_signal() can, so
 * they are put in place after it was called: each time they are 2 % of the time of a script of one line.
 */
static zif_handler pcntl_signal;
static bool are_signals_due = true;

static void ZEND_FASTCALL note_signal(INTERNAL_FUNCTION_PARAMETERS)
{
    are_signals_due = true;
    pcntl_signal(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void watch_signal_handlers(void)
{
    zend_internal_function *function = zend_hash_str_find_ptr(CG(function_table), "pcntl_signal", sizeof "pcntl_signal" - 1);
    if (!function || function->type != ZEND_INTERNAL_FUNCTION)
        return;
    pcntl_signal = function->handler;
    function->handler = note_signal;
}

bool php_start_request(void)
{
    SIGG(reset) = are_signals_due;
    are_signals_due = false;
    return php_request_startup() == SUCCESS;
}

bool php_begin(const char *program)
{
    if (settings.php_ini)
        interface.php_ini_path_override = settings.php_ini;
    /* A file that is named without a folder beside it is all there is: not the folder that the library was built with, too. */
    if (settings.php_ini_folder || settings.php_ini)
        setenv("PHP_INI_SCAN_DIR", settings.php_ini_folder ? settings.php_ini_folder : "", 1);
    interface.php_ini_ignore_cwd = 1;
    interface.executable_location = (char *)program;
    zend_signal_startup();
    /* It forgets the entries that it finds. */
    sapi_startup(&interface);
    interface.ini_entries = ini_text();
    if (interface.startup(&interface) == FAILURE)
        return false;
    unsetenv("PHP_INI_SCAN_DIR");
    lock_admin_values();
    watch_signal_handlers();
    request_begin_folders();
    import_process_environment = php_import_environment_variables;
    php_import_environment_variables = import_environment;
    php_load_environment_variables = load_environment;
    return true;
}

/* PHP 8.5 wants to be told of a fork. */
extern void php_child_init(void) __attribute__((weak));

void php_begin_worker(void)
{
    is_worker = true;
    if (php_child_init)
        php_child_init();
    own_slot->executing = &EG(current_execute_data);
}

void php_end(void)
{
    SG(server_context) = NULL;
    php_module_shutdown();
    sapi_shutdown();
}

/* One request. */

static void answer_plainly(int code, const char *text)
{
    SG(sapi_headers).http_response_code = code;
    PUTS(text);
}

static void answer_text(const char *type, const char *text)
{
    /* There is no script of this name, which has been noted. */
    SG(sapi_headers).http_response_code = 200;
    sapi_header_line line = {0};
    char header[128];
    line.line_len = (size_t)snprintf(header, sizeof header, "Content-Type: %s", type);
    line.line = header;
    sapi_header_op(SAPI_HEADER_REPLACE, &line);
    static const char *const NEVER_STORED[] = {"Expires: Thu, 01 Jan 1970 00:00:00 GMT", "Cache-Control: no-cache, no-store, must-revalidate, max-age=0"};
    for (int at = 0; at < 2; at++) {
        line = (sapi_header_line){.line = NEVER_STORED[at], .line_len = strlen(NEVER_STORED[at])};
        sapi_header_op(SAPI_HEADER_REPLACE, &line);
    }
    if (!SG(request_info).headers_only)
        PUTS(text);
}

/* pm.status_path and ping.path. */
bool request_answer_itself(void)
{
    if (disabled_refuses()) {
        answer_plainly(500, "Internal Server Error\n");
        return true;
    }
    if (request_asks_for == PING_PAGE) {
        answer_text("text/plain", settings.ping_response ? settings.ping_response : "pong");
        return true;
    }
    if (request_asks_for != STATUS_PAGE)
        return false;
    const char *type;
    char *page = status_page(SG(request_info).query_string, &type);
    answer_text(type, page);
    free(page);
    return true;
}

static void run_script(void)
{
    char *path = SG(request_info).path_translated;
    if (!path) {
        request_log("Primary script unknown");
        answer_plainly(404, "File not found.\n");
        return;
    }
    if (!request_has_script_extension(path)) {
        char message[TEXT_BYTES * 2];
        snprintf(message, sizeof message, "Access to the script '%s' has been denied (see security.limit_extensions)", path);
        request_log(message);
        answer_plainly(403, "Access denied.\n");
        return;
    }
    zend_file_handle file;
    /* PHP frees the path of one that it cannot open. */
    char *wanted = estrdup(path);
    if (php_fopen_primary_script(&file) == FAILURE) {
        bool is_denied = errno == EACCES;
        char *message;
        spprintf(&message, 0, "Unable to open primary script: %s (%s)", wanted, strerror(errno));
        request_log(message);
        efree(message);
        answer_plainly(is_denied ? 403 : 404, is_denied ? "Access denied.\n" : "No input file specified.\n");
    } else {
        EG(exit_status) = 0;
        php_execute_script(&file);
        if (EG(exit_status) == 255 && cgi.error_header && *cgi.error_header && !SG(headers_sent)) {
            sapi_header_line line = {.line = cgi.error_header, .line_len = strlen(cgi.error_header)};
            sapi_header_op(SAPI_HEADER_REPLACE, &line);
        }
    }
    efree(wanted);
    if (!file.in_list)
        zend_destroy_file_handle(&file);
}

void request_note(void)
{
    board_note(own_slot, SG(request_info).request_method, param_get("REQUEST_URI"), SG(request_info).query_string,
               SG(request_info).path_translated, SG(request_info).auth_user);
    own_slot->content_length = (uint64_t)SG(request_info).content_length;
}

void php_answer(void)
{
    zend_first_try {
        SG(server_context) = &exchange;
        request_begin_log();
        request_prepare();
        request_apply_values();
        request_note();
        if (!php_start_request())
            fail("PHP could not begin a request");
        if (SG(request_info).request_method) {
            zend_try {
                if (!request_answer_command() && !request_answer_itself())
                    run_script();
            } zend_end_try();
        }
        own_slot->memory_bytes = zend_memory_peak_usage(true);
        own_slot->state = SLOT_FINISHING;
        access_log_write();
        if (SG(request_info).path_translated) {
            efree(SG(request_info).path_translated);
            SG(request_info).path_translated = NULL;
        }
        php_request_shutdown(NULL);
        fastcgi_end(0, false);
    } zend_catch {
        exchange.is_broken = true;
        is_draining = 1;
    } zend_end_try();
    SG(server_context) = NULL;
}
