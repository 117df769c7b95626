/* What request.c and sapi.c share: the settings of PHP's own that a FastCGI interface has. */
#ifndef BRISK_SAPI_H
#define BRISK_SAPI_H

#include "php.h"
#include "SAPI.h"

struct cgi_settings {
    bool rfc2616_headers;
    bool nph;
    bool fix_pathinfo;
    bool discard_path;
    bool script_path_encoded;
    bool logging;
    char *error_header;
};

extern struct cgi_settings cgi;

/* .user.ini and what php.ini says of hosts and folders. */
int request_apply_folders(void);
void request_begin_folders(void);

/* disable_functions and disable_classes of a request. */
void disabled_add(zend_string *name, zend_string *list);

/* The constants of worker mode's functions. */
void loop_begin(int type, int module_number);

/* fpm_get_status(). */
void status_array(zval *array);

#endif
