//! `php_value` and `php_flag`: which settings of PHP a folder may say.

use super::compile::Done;
use super::settings::PhpSetting;
use crate::directives::{Places, Standing};
use crate::syntax::Node;

/// Settings that PHP 8.2 and 44 extensions of Debian's let a folder say: those whose access (`ini_get_all`) has the bit of
/// `PHP_INI_PERDIR`, without `open_basedir`, which FPM would widen by it, and without those of debuggers.
///
/// FPM itself does not ask: whatever it is told as `PHP_VALUE`, it sets, and some settings load code. So what is not here is refused.
const OF_FOLDERS: &str = "
    SMTP amqp.auto_ack amqp.cacert amqp.cert amqp.channel_max amqp.connect_timeout amqp.frame_max amqp.global_prefetch_count
    amqp.global_prefetch_size amqp.heartbeat amqp.host amqp.key amqp.login amqp.password amqp.port amqp.prefetch_count
    amqp.prefetch_size amqp.read_timeout amqp.rpc_timeout amqp.sasl_method amqp.timeout amqp.verify amqp.vhost amqp.write_timeout
    apc.use_request_time arg_separator.input arg_separator.output assert.active assert.bail assert.callback assert.exception
    assert.warning auto_append_file auto_detect_line_endings auto_globals_jit auto_prepend_file bcmath.scale cli.pager cli.prompt
    date.default_latitude date.default_longitude date.sunrise_zenith date.sunset_zenith date.timezone default_charset
    default_mimetype default_socket_timeout display_errors display_startup_errors docref_ext docref_root enable_post_data_reading
    error_append_string error_log error_log_mode error_prepend_string error_reporting exif.decode_jis_intel
    exif.decode_jis_motorola exif.decode_unicode_intel exif.decode_unicode_motorola exif.encode_jis exif.encode_unicode
    fiber.stack_size filter.default filter.default_flags from gd.jpeg_ignore_warning highlight.comment highlight.default
    highlight.html highlight.keyword highlight.string html_errors http.etag.mode iconv.input_encoding iconv.internal_encoding
    iconv.output_encoding igbinary.compact_strings ignore_repeated_errors ignore_repeated_source ignore_user_abort implicit_flush
    include_path input_encoding internal_encoding intl.default_locale intl.error_level intl.use_exceptions log_errors
    mail.add_x_header mail.log mail.mixed_lf_and_crlf mailparse.def_charset max_execution_time
    max_file_uploads max_input_nesting_level max_input_time max_input_vars max_multipart_body_parts mbstring.detect_order
    mbstring.encoding_translation mbstring.http_input mbstring.http_output mbstring.http_output_conv_mimetypes
    mbstring.internal_encoding mbstring.language mbstring.regex_retry_limit mbstring.regex_stack_limit mbstring.strict_detection
    mbstring.substitute_character memcache.allow_failover memcache.chunk_size memcache.compress_threshold memcache.default_port
    memcache.hash_function memcache.hash_strategy memcache.lock_timeout memcache.max_failover_attempts memcache.prefix_host_key
    memcache.prefix_host_key_remove_subdomain memcache.prefix_host_key_remove_www memcache.prefix_static_key memcache.protocol
    memcache.redundancy memcache.session_prefix_host_key memcache.session_prefix_host_key_remove_subdomain
    memcache.session_prefix_host_key_remove_www memcache.session_prefix_static_key memcache.session_redundancy
    memcache.session_save_path memory_hard_limit_percent memory_limit mongodb.debug msgpack.error_display
    msgpack.illegal_key_insert msgpack.php_only msgpack.use_str8_serialization mysqli.default_host mysqli.default_port
    mysqli.default_pw mysqli.default_socket mysqli.default_user mysqlnd.collect_statistics mysqlnd.log_mask
    mysqlnd.mempool_default_size mysqlnd.net_cmd_buffer_size mysqlnd.net_read_buffer_size mysqlnd.net_read_timeout
    mysqlnd.sha256_server_public_key opcache.consistency_checks opcache.dups_fix opcache.enable opcache.file_update_protection
    opcache.jit opcache.jit_bisect_limit opcache.jit_blacklist_root_trace opcache.jit_blacklist_side_trace opcache.jit_debug
    opcache.jit_hot_side_exit opcache.jit_max_loop_unrolls opcache.jit_max_polymorphic_calls opcache.jit_max_recursive_calls
    opcache.jit_max_recursive_returns opcache.jit_prof_threshold opcache.revalidate_freq opcache.revalidate_path
    opcache.validate_timestamps openssl.cafile openssl.capath output_buffering output_encoding output_handler pcre.backtrack_limit
    pcre.jit pcre.recursion_limit pgsql.ignore_notice pgsql.log_notice phar.readonly phar.require_hash post_max_size precision
    redis.arrays.algorithm redis.arrays.auth redis.arrays.autorehash redis.arrays.connecttimeout redis.arrays.consistent
    redis.arrays.distributor redis.arrays.functions redis.arrays.hosts redis.arrays.index redis.arrays.lazyconnect
    redis.arrays.names redis.arrays.pconnect redis.arrays.previous redis.arrays.readtimeout redis.arrays.retryinterval
    redis.clusters.auth redis.clusters.cache_slots redis.clusters.persistent redis.clusters.read_timeout redis.clusters.seeds
    redis.clusters.timeout redis.pconnect.connection_limit redis.pconnect.echo_check_liveness redis.pconnect.pool_detect_dirty
    redis.pconnect.pool_pattern redis.pconnect.pool_poll_timeout redis.pconnect.pooling_enabled redis.session.lock_expire
    redis.session.lock_retries redis.session.lock_wait_time redis.session.locking_enabled register_argc_argv report_memleaks
    report_zend_debug request_order sendmail_from serialize_precision session.auto_start session.cache_expire
    session.cache_limiter session.cookie_domain session.cookie_httponly session.cookie_lifetime session.cookie_path
    session.cookie_samesite session.cookie_secure session.gc_divisor session.gc_maxlifetime session.gc_probability
    session.lazy_write session.name session.referer_check session.save_handler session.save_path session.serialize_handler
    session.sid_bits_per_character session.sid_length session.trans_sid_hosts session.trans_sid_tags
    session.upload_progress.cleanup session.upload_progress.enabled session.upload_progress.freq session.upload_progress.min_freq
    session.upload_progress.name session.upload_progress.prefix session.use_cookies session.use_only_cookies
    session.use_strict_mode session.use_trans_sid short_open_tag smtp_port soap.wsdl_cache soap.wsdl_cache_dir
    soap.wsdl_cache_enabled soap.wsdl_cache_limit soap.wsdl_cache_ttl stomp.default_broker stomp.default_connection_timeout_sec
    stomp.default_connection_timeout_usec stomp.default_password stomp.default_read_timeout_sec stomp.default_read_timeout_usec
    stomp.default_username syslog.filter unserialize_callback_func unserialize_max_depth upload_max_filesize
    uploadprogress.file.contents_template uploadprogress.file.filename_template uploadprogress.get_contents url_rewriter.hosts
    url_rewriter.tags user_agent variables_order xmlrpc_error_number yac.debug yaml.decode_binary yaml.decode_php
    yaml.decode_timestamp yaml.output_canonical yaml.output_indent yaml.output_width zend.assertions zend.detect_unicode
    zend.enable_gc zend.exception_ignore_args zend.exception_string_param_max_len zend.multibyte zend.script_encoding
    zlib.output_compression zlib.output_compression_level zlib.output_handler
";

/// Settings of folders in earlier versions of PHP. Files still have them, and PHP takes no notice.
const OF_THE_PAST: &str = "
    allow_call_time_pass_reference always_populate_raw_post_data asp_tags define_syslog_variables magic_quotes_gpc
    magic_quotes_runtime magic_quotes_sybase mbstring.func_overload register_globals register_long_arrays session.bug_compat_42
    session.bug_compat_warn session.entropy_file session.entropy_length session.hash_bits_per_character session.hash_function
    track_errors y2k_compliance zend.ze1_compatibility_mode
";

/// PHP itself lets a folder's file say this, and takes no notice of it; PHP-FPM would.
const IGNORED: &[u8] = b"mail.force_extra_parameters";

/// Settings of the module that Apache runs PHP by.
const OF_APACHES_MODULE: &str = "engine last_modified xbithack";

fn is_of_folders(name: &[u8]) -> bool {
    let lists = [OF_FOLDERS, OF_APACHES_MODULE, OF_THE_PAST];
    lists.iter().flat_map(|list| list.split_ascii_whitespace()).any(|known| known.as_bytes() == name)
}

/// Why a setting or its value is refused. FPM reads values as php.ini's, where `${…}` is a variable of the process, `;` begins a comment and
/// quotation marks end texts.
fn refused(name: &[u8], value: &[u8]) -> Option<String> {
    if !is_of_folders(name) {
        return Some("only php.ini or the pool may say this setting".into());
    }
    let is_special =
        value.iter().any(|byte| b";\"'`".contains(byte)) || memchr::memmem::find(value, b"${").is_some();
    is_special.then(|| "the value must be without quotation marks, semicolons and ${".into())
}

/// `php_value` and `php_flag`, which are PHP's own. Settings of the administrator are none of a site's.
pub(super) fn php(node: &Node, standing: Standing<'_>, settings: &mut Vec<PhpSetting>) -> Done {
    let mut words = node.words();
    let (name, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_flag = match node.name.to_ascii_lowercase().as_str() {
        "php_value" => false,
        "php_flag" => true,
        "php_admin_value" | "php_admin_flag" => return Some(Err("not allowed here".into())),
        _ => return None,
    };
    // mod_php has them in this class.
    if !standing.admits(node, Places::OPTIONS) {
        return Some(Err("not allowed here".into()));
    }
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    if name.is_empty() || !name.iter().all(is_name) {
        return Some(Err(format!("'{}' is no name of a setting", String::from_utf8_lossy(&name))));
    }
    // They become lines of a FastCGI parameter: an end of line would begin another setting.
    if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) || words.next().is_some() {
        return Some(Err("takes a name and a value".into()));
    }
    if name == IGNORED {
        return Some(Ok(()));
    }
    if let Some(why) = refused(&name, &value) {
        return Some(Err(why));
    }
    let value = match (is_flag, value.to_ascii_lowercase().as_slice()) {
        (true, b"on" | b"yes" | b"true" | b"1") => b"1".to_vec(),
        (true, _) => b"0".to_vec(),
        (false, b"none") => Vec::new(),
        (false, _) => value,
    };
    settings.push(PhpSetting { name, value });
    Some(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_them_only_where_options_may_be_said() {
        let line = Node { name: "php_flag".into(), args: b"engine on".to_vec(), line: 1, children: None };
        let check = |classes: Places, list: &[&str], wanted: bool| {
            let list: Vec<String> = list.iter().map(|name| (*name).to_string()).collect();
            let mut settings = Vec::new();
            let done = php(&line, Standing::Override { classes, list: &list }, &mut settings);
            assert_eq!(done.is_some_and(|done| done.is_ok()), wanted, "{classes:?} {list:?}");
            assert_eq!(settings.len(), usize::from(wanted));
        };
        check(Places::ALL, &[], true);
        check(Places::OPTIONS, &[], true);
        check(Places::FILE_INFO.or(Places::INDEXES).or(Places::LIMIT).or(Places::AUTH_CONFIG), &[], false);
        check(Places::FILE_INFO, &["PHP_Flag"], true);
        check(Places::NONE, &["php_value"], false);
    }

    #[test]
    fn only_settings_of_folders_are_taken() {
        for name in
            ["memory_limit", "auto_prepend_file", "session.save_path", "magic_quotes_gpc", "opcache.enable"]
        {
            assert_eq!(refused(name.as_bytes(), b"1"), None, "{name}");
        }
        for name in [
            "open_basedir",
            "extension",
            "zend_extension",
            "disable_functions",
            "sendmail_path",
            "allow_url_include",
            "opcache.preload",
            "opcache.file_cache",
            "opcache.lockfile_path",
            "ffi.enable",
            "user_dir",
            "upload_tmp_dir",
            "Memory_Limit",
            "unknown.setting",
            "",
        ] {
            assert!(refused(name.as_bytes(), b"1").is_some(), "{name}");
        }
    }
}
