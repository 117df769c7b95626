/*
 * A request's variables as PHP sees them: which script it is, what of the URI is the path behind it, and the settings that came with
 * it. What PHP-FPM does is the contract: applications see it in $_SERVER.
 */
#include "brisk_php.h"
#include "sapi.h"

#include "ext/standard/url.h"
#include "php_ini.h"
#include "php_main.h"
#include "php_variables.h"
#include "zend_ini_scanner.h"
#include "zend_virtual_cwd.h"

#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is worked out for one request. */
struct way {
    char *script;       /* the file */
    char *name;         /* SCRIPT_NAME */
    char *path_info;
    char *translated;   /* PATH_TRANSLATED */
    bool is_apache;     /* SCRIPT_FILENAME was a URL of mod_proxy_fcgi */
};

/* The FPM of PHP 8.2 takes the name that mod_proxy_fcgi sends as it is; later ones decode it (fastcgi.script_path_encoded). */
#define DECODES_NAMES (PHP_VERSION_ID >= 80300)

static bool has_parent_folder(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at++)
        if ((at == path || at[-1] == '/') && (at[2] == 0 || at[2] == '/'))
            return true;
    return false;
}

/* mod_proxy_fcgi sends "proxy:fcgi://host:port/path?query" as the script's name. */
static bool strip_apache(char *script)
{
    static const char *const PREFIXES[] = {"proxy:fcgi://", "proxy:balancer://"};
    for (size_t at = 0; script && at < 2; at++) {
        size_t length = strlen(PREFIXES[at]);
        if (strncasecmp(script, PREFIXES[at], length) != 0)
            continue;
        char *path = strchr(script + length, '/');
        if (path)
            memmove(script, path, strlen(path) + 1);
        char *query = strchr(script, '?');
        if (query)
            *query = 0;
        return path != NULL;
    }
    return false;
}

static void put_original(const char *name, const char *value)
{
    if (value)
        param_put(name, value);
}

/* The path behind the script becomes PATH_INFO, and leaves SCRIPT_NAME. `cut`: bytes of it at the end of the file's name. */
static void split_path_info(struct way *way, size_t cut)
{
    const char *had = way->path_info;
    size_t length = had ? strlen(had) : 0;
    if (way->is_apache) {
        char *behind = way->script + strlen(way->script) - cut;
        if (cut == 0 || (had && strcmp(had, behind) == 0))
            return;
        char *path = estrdup(behind);
        size_t name_length = way->name ? strlen(way->name) : 0;
        if (!had && way->name) {
            char *decoded = estrdup(path);
            size_t decoded_length = strlen(decoded);
            if ((!DECODES_NAMES || cgi.script_path_encoded) && strchr(decoded, '%'))
                decoded_length = php_raw_url_decode(decoded, decoded_length);
            size_t end = 0;
            if (name_length > cut && strcmp(way->name + name_length - cut, path) == 0)
                end = name_length - cut;
            else if (name_length > decoded_length && strcmp(way->name + name_length - decoded_length, decoded) == 0)
                end = name_length - decoded_length;
            if (end > 0) {
                param_put("ORIG_SCRIPT_NAME", way->name);
                way->name[end] = 0;
                SG(request_info).request_uri = param_put("SCRIPT_NAME", way->name);
            }
            if (DECODES_NAMES && cgi.script_path_encoded && strchr(path, '%'))
                strcpy(path, decoded);
            efree(decoded);
        }
        way->path_info = param_put("PATH_INFO", path);
        efree(path);
        return;
    }
    /* Only a PATH_INFO that is longer than what is cut holds it: without this the name of the script was written to before
       its beginning (CVE-2019-11043). */
    if (!had || length <= cut)
        return;
    char *path = estrdup(had + length - cut);
    char *name = estrndup(had, length - cut);
    param_put("ORIG_PATH_INFO", had);
    if (!way->name || strcmp(way->name, name) != 0) {
        put_original("ORIG_SCRIPT_NAME", way->name);
        SG(request_info).request_uri = param_put("SCRIPT_NAME", name);
    } else {
        SG(request_info).request_uri = way->name;
    }
    way->path_info = param_put("PATH_INFO", path);
    efree(path);
    efree(name);
}

/* PATH_TRANSLATED: the root, or the script without its name, and the path behind the script. */
static void translate(const struct way *way, const char *script)
{
    const char *root = param_get("DOCUMENT_ROOT");
    const char *path_info = way->path_info ? way->path_info : "";
    size_t length;
    if (root) {
        length = strlen(root);
        if (length > 0 && root[length - 1] == '/')
            length--;
    } else if (way->name && strstr(script, way->name)) {
        root = script;
        length = strlen(script) - strlen(way->name);
    } else {
        return;
    }
    char *path;
    spprintf(&path, 0, "%.*s%s", (int)length, root, path_info);
    put_original("ORIG_PATH_TRANSLATED", way->translated);
    param_put("PATH_TRANSLATED", path);
    efree(path);
}

/* The file does not exist as it is named: the longest part of the name before a slash that is a file is the script. */
static void find_script(struct way *way, const char *named)
{
    char *part = estrdup(way->script);
    size_t length = strlen(part);
    char *name = way->name;
    struct stat file;
    bool is_found = false;
    for (char *slash; !is_found && (slash = strrchr(part, '/'));) {
        *slash = 0;
        is_found = stat(part, &file) == 0 && S_ISREG(file.st_mode);
    }
    if (is_found) {
        split_path_info(way, length - strlen(part));
        if (!named || strcmp(named, part) != 0) {
            put_original("ORIG_SCRIPT_FILENAME", named);
            way->script = param_put("SCRIPT_FILENAME", part);
        }
        translate(way, part);
    } else {
        put_original("ORIG_SCRIPT_FILENAME", named);
        way->script = param_put("SCRIPT_FILENAME", NULL);
        SG(sapi_headers).http_response_code = 404;
    }
    if (!SG(request_info).request_uri)
        SG(request_info).request_uri = name;
    efree(part);
}

static void find_way(struct way *way)
{
    char *named = param_get("SCRIPT_FILENAME");
    char *redirect = param_get("REDIRECT_URL");
    char *name_before = way->name;
    if (!param_get("DOCUMENT_ROOT") && PG(doc_root))
        param_put("DOCUMENT_ROOT", PG(doc_root));
    if (!way->is_apache && way->translated && redirect && strcmp(way->translated, way->script) != 0) {
        way->script = way->translated;
        way->name = redirect;
    }
    size_t length = strlen(way->script);
    char *real = NULL;
    if (length > 0 && (way->script[length - 1] == '/' || !(real = tsrm_realpath(way->script, NULL)))) {
        find_script(way, named);
        return;
    }
    if (real)
        efree(real);
    if (!named || strcmp(way->script, named) != 0) {
        put_original("ORIG_SCRIPT_FILENAME", named);
        way->script = param_put("SCRIPT_FILENAME", way->script);
    }
    if (!way->is_apache && redirect) {
        if (way->path_info) {
            param_put("ORIG_PATH_INFO", way->path_info);
            param_put("PATH_INFO", NULL);
        }
        if (way->translated) {
            param_put("ORIG_PATH_TRANSLATED", way->translated);
            param_put("PATH_TRANSLATED", NULL);
        }
    }
    if (way->name != name_before) {
        put_original("ORIG_SCRIPT_NAME", name_before);
        SG(request_info).request_uri = param_put("SCRIPT_NAME", way->name);
    } else {
        SG(request_info).request_uri = way->name;
    }
}

enum own_page request_asks_for;

static enum own_page page_of(const char *name)
{
    if (name && settings.ping_path && strcmp(name, settings.ping_path) == 0)
        return PING_PAGE;
    return name && settings.status_path && strcmp(name, settings.status_path) == 0 ? STATUS_PAGE : NO_PAGE;
}

void request_prepare(void)
{
    sapi_request_info *info = &SG(request_info);
    info->path_translated = NULL;
    info->request_method = param_get("REQUEST_METHOD");
    info->proto_num = 1000;
    info->query_string = param_get("QUERY_STRING");
    /* Also without a script of the request's own: worker mode has one, and the status page needs none. */
    info->request_uri = param_get("SCRIPT_NAME");
    char *type = param_get("CONTENT_TYPE"), *length = param_get("CONTENT_LENGTH");
    info->content_type = type ? type : "";
    info->content_length = length ? ZEND_STRTOL(length, NULL, 10) : 0;
    php_handle_auth_data(param_get("HTTP_AUTHORIZATION"));
    SG(sapi_headers).http_response_code = 200;
    struct way way = {
        .script = param_get("SCRIPT_FILENAME"), .name = param_get("SCRIPT_NAME"), .path_info = param_get("PATH_INFO"),
        .translated = param_get("PATH_TRANSLATED"),
    };
    request_asks_for = page_of(way.name);
    if (!way.script)
        way.script = way.translated;
    if (!way.script)
        return;
    info->request_uri = NULL;
    way.is_apache = strip_apache(param_get("SCRIPT_FILENAME"));
    if (DECODES_NAMES && way.is_apache && !cgi.script_path_encoded)
        php_raw_url_decode(way.script, strlen(way.script));
    if (cgi.fix_pathinfo) {
        find_way(&way);
    } else {
        info->request_uri = way.path_info ? way.path_info : way.name;
        if (!cgi.discard_path && way.translated)
            way.script = way.translated;
    }
    if (way.script && !has_parent_folder(way.script))
        info->path_translated = estrdup(way.script);
}

bool request_has_script_extension(const char *path)
{
    if (settings.extension_count == 0)
        return true;
    size_t length = strlen(path);
    for (size_t at = 0; at < settings.extension_count; at++) {
        size_t own = strlen(settings.extensions[at]);
        if (own < length && strcmp(path + length - own, settings.extensions[at]) == 0)
            return true;
    }
    return false;
}

static void refuse_value(const char *name, const char *why)
{
    char *text;
    spprintf(&text, 0, "PHP_VALUE: \"%s\" %s", name, why);
    request_log(text);
    efree(text);
}

/* The names that the server's configuration has set for this request: a site's own file does not. Only where such a file says something. */
static HashTable configured;
static bool has_site_values;

/* One setting of PHP_VALUE or PHP_ADMIN_VALUE, for this request only. */
static void apply_value(zval *name, zval *value, zval *index, int kind, void *argument)
{
    const int *type = argument;
    (void)index;
    if (!name || (*type == PHP_INI_PERDIR && zend_hash_exists(&configured, Z_STR_P(name))))
        return;
    if (has_site_values && *type != PHP_INI_PERDIR)
        zend_hash_add_empty_element(&configured, Z_STR_P(name));
    if (kind != ZEND_INI_PARSER_ENTRY || !value || Z_TYPE_P(value) != IS_STRING) {
        refuse_value(Z_STRVAL_P(name), "is no setting with a value");
        return;
    }
    /* Code that is loaded stays for all requests that follow: it is for the pool's settings, not for a request's. */
    if (strcasecmp(Z_STRVAL_P(name), "extension") == 0 || strcasecmp(Z_STRVAL_P(name), "zend_extension") == 0) {
        refuse_value(Z_STRVAL_P(name), "is refused; load extensions in php.ini or with php_admin_value in the pool");
        return;
    }
    if (*type != PHP_INI_PERDIR && disabled_is_list(Z_STRVAL_P(name))) {
        disabled_add(Z_STR_P(name), Z_STR_P(value));
        return;
    }
    /* What may be set for a folder may be set for a request, too, as in FPM; what belongs to the system only by an administrator. */
    const zend_ini_entry *entry = zend_hash_find_ptr(EG(ini_directives), Z_STR_P(name));
    bool may = entry && (*type == PHP_INI_SYSTEM || entry->modifiable & (PHP_INI_USER | PHP_INI_PERDIR));
    /* PHP looks at open_basedir for this one only where it is no path (an inverted comparison, in 8.2 at least). */
    if (may && *type == PHP_INI_PERDIR && strcasecmp(Z_STRVAL_P(name), "error_log") == 0 && strcmp(Z_STRVAL_P(value), "syslog") != 0)
        may = php_check_open_basedir_ex(Z_STRVAL_P(value), 0) == 0;
    /*
     * open_basedir may be set freely while a request begins. A request's own may only narrow what the pool has set, as ini_set() may: what
     * comes from a location may be made of a client's bytes, and what comes from a site's file is the site's.
     */
    bool is_narrowed = *type != PHP_INI_SYSTEM && strcasecmp(Z_STRVAL_P(name), "open_basedir") == 0;
    int stage = *type == PHP_INI_PERDIR ? PHP_INI_STAGE_HTACCESS : is_narrowed ? PHP_INI_STAGE_RUNTIME : PHP_INI_STAGE_ACTIVATE;
    /* A copy in the request's memory: the parser's own is malloc()'s, and error_reporting() frees it as if it were the request's. */
    zend_string *copy = zend_string_init(Z_STRVAL_P(value), Z_STRLEN_P(value), false);
    /* A site's own settings are asked for as mod_php asks for them: where PHP refuses one to a folder's file, or a path that is outside of
       open_basedir, it is not set. */
    if (!may || zend_alter_ini_entry_ex(Z_STR_P(name), copy, *type, stage, *type != PHP_INI_PERDIR) == FAILURE)
        refuse_value(Z_STRVAL_P(name), "cannot be set");
    zend_string_release(copy);
}

static void apply_values(const char *from, const char *values, int type)
{
    char *text;
    if (!values || !*values)
        return;
    spprintf(&text, 0, "%s\n", values);
    /* What stands behind a mistake is not set. */
    if (zend_parse_ini_string(text, 1, ZEND_INI_SCANNER_NORMAL, apply_value, &type) == FAILURE)
        refuse_value(from, "has a mistake");
    efree(text);
}

/* PHP_VALUE without the lines at its beginning that come from a site's own files, as many as BRISK_SITE_VALUES says. */
static char *configured_values(char *values)
{
    const char *count = param_get("BRISK_SITE_VALUES");
    for (long left = count && values ? strtol(count, NULL, 10) : 0; left > 0 && values; left--) {
        values = strchr(values, '\n');
        if (values)
            values++;
    }
    return values;
}

void request_apply_values(void)
{
    char *values = param_get("PHP_VALUE"), *own = configured_values(values);
    has_site_values = own != values;
    if (has_site_values)
        zend_hash_init(&configured, 8, NULL, NULL, 0);
    apply_values("PHP_VALUE", own, PHP_INI_USER);
    apply_values("PHP_ADMIN_VALUE", param_get("PHP_ADMIN_VALUE"), PHP_INI_SYSTEM);
}

/* While the request begins, as those of .user.ini: open_basedir and all else that the administrator says is in force. */
static void apply_site_values(void)
{
    if (!has_site_values)
        return;
    char *values = param_get("PHP_VALUE"), *own = configured_values(values);
    char *text = own ? estrndup(values, (size_t)(own - values)) : estrdup(values);
    apply_values("PHP_VALUE", text, PHP_INI_PERDIR);
    efree(text);
    zend_hash_destroy(&configured);
    has_site_values = false;
    param_put("BRISK_SITE_VALUES", NULL);
}

/*
 * .user.ini: what its files said, by folder. They are looked at again when the kernel reports a change (inotify), which the master hears of
 * and counts on the board; and after user_ini.cache_ttl, since some file systems report nothing.
 */
struct folder {
    time_t expires;
    uint64_t changes;    /* that the board counted when it was read */
    HashTable values;
};

static HashTable folders;
/* Folders that a worker remembers. */
#define FOLDERS_MAX 4096
/* One for master and workers: workers say which folders they have read, the master hears of changes. */
static int folder_events = -1;

static void forget_folder(zval *value)
{
    struct folder *folder = Z_PTR_P(value);
    zend_hash_destroy(&folder->values);
    free(folder);
}

void request_begin_folders(void)
{
    zend_hash_init(&folders, 0, NULL, forget_folder, 1);
    folder_events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
}

int request_folder_events(void)
{
    return folder_events;
}

/* In the master. Only files of that name are watched themselves, and their events have no name; those of folders are of any file. */
void request_hear_folders(void)
{
    char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t count;
    while ((count = read(folder_events, events, sizeof events)) > 0) {
        for (char *at = events; at < events + count;) {
            const struct inotify_event *event = (const void *)at;
            if (event->len == 0 || (PG(user_ini_filename) && strcmp(event->name, PG(user_ini_filename)) == 0))
                board->folder_changes++;
            at += sizeof *event + event->len;
        }
    }
}

/* To be called before the folder's file is read. What cannot be watched is read again after user_ini.cache_ttl. */
static void watch_folder(const char *path)
{
    char file[MAXPATHLEN];
    if (folder_events < 0 || snprintf(file, sizeof file, "%s/%s", path, PG(user_ini_filename)) >= (int)sizeof file)
        return;
    inotify_add_watch(folder_events, path, IN_CREATE | IN_DELETE | IN_MOVE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
    inotify_add_watch(folder_events, file, IN_MODIFY | IN_ATTRIB);
}

static void read_folder(struct folder *folder, char *path)
{
    watch_folder(path);
    php_parse_user_ini_file(path, PG(user_ini_filename), &folder->values);
}

static void read_folders(struct folder *folder, char *path, size_t length, const char *root, size_t root_length)
{
    zend_hash_clean(&folder->values);
    if (length < root_length || strncmp(path, root, root_length) != 0) {
        read_folder(folder, path);
        return;
    }
    /* From the root down to the script. */
    for (char *slash = path + root_length; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        read_folder(folder, path);
        *slash = '/';
    }
}

static void apply_user_files(char *path, size_t length)
{
    const char *root = param_get("DOCUMENT_ROOT");
    if (!root || !PG(user_ini_filename) || !*PG(user_ini_filename))
        return;
    size_t root_length = strlen(root);
    if (root_length > 0 && root[root_length - 1] == '/')
        root_length--;
    /* Which files count depends on the root, too. */
    char *key;
    size_t key_length = spprintf(&key, 0, "%s%c%s", path, 0, root);
    struct folder *folder = zend_hash_str_find_ptr(&folders, key, key_length);
    if (!folder) {
        /* A client may ask for scripts in any number of folders that there are not. */
        if (zend_hash_num_elements(&folders) >= FOLDERS_MAX)
            zend_hash_clean(&folders);
        folder = calloc(1, sizeof *folder);
        if (!folder) {
            efree(key);
            return;
        }
        zend_hash_init(&folder->values, 0, NULL, config_zval_dtor, 1);
        zend_hash_str_update_ptr(&folders, key, key_length, folder);
    }
    efree(key);
    time_t now = (time_t)sapi_get_request_time();
    uint64_t changes = board->folder_changes;
    if (now > folder->expires || changes != folder->changes) {
        folder->changes = changes;
        read_folders(folder, path, length, root, root_length);
        folder->expires = now + PG(user_ini_cache_ttl);
    }
    php_ini_activate_config(&folder->values, PHP_INI_PERDIR, PHP_INI_STAGE_HTACCESS);
}

int request_apply_folders(void)
{
    apply_site_values();
    const char *script = SG(request_info).path_translated;
    if (!script)
        return FAILURE;
    char *host = param_get("SERVER_NAME");
    if (host && php_ini_has_per_host_config()) {
        char *lower = estrdup(host);
        zend_str_tolower(lower, strlen(lower));
        php_ini_activate_per_host_config(lower, strlen(lower));
        efree(lower);
    }
    if (!php_ini_has_per_dir_config() && !(PG(user_ini_filename) && *PG(user_ini_filename)))
        return SUCCESS;
    size_t length = strlen(script);
    char *path = emalloc(length + 2);
    memcpy(path, script, length + 1);
    length = zend_dirname(path, length);
    path[length++] = '/';
    path[length] = 0;
    php_ini_activate_per_dir_config(path, length);
    apply_user_files(path, length);
    efree(path);
    return SUCCESS;
}
