//! What the directives refuse and warn of.

use crate::check::{messages, refused};

#[test]
fn what_cannot_be_is_refused() {
    refused(&[
        (
            "ssl_protocols TLSv1 TLSv1.1; server { ssl_certificate a; ssl_certificate_key b; }",
            "no protocol is left: only TLSv1.2 and TLSv1.3 are offered",
        ),
        (
            "server { location / { proxy_pass https://127.0.0.1; proxy_ssl_protocols TLSv1; } }",
            "no protocol is left: only TLSv1.2 and TLSv1.3 are offered",
        ),
        ("ssl_protocols TLSv1.4;", "invalid value \"TLSv1.4\""),
        (
            "ssl_ciphers AES128-SHA:RC4;",
            "SSL_CTX_set_cipher_list(\"AES128-SHA:RC4\") failed (SSL: error:0A0000B9:SSL routines::no cipher match)",
        ),
        ("ssl_ecdh_curve secp521r1;", "SSL_CTX_set1_curves_list(\"secp521r1\") failed"),
        ("ssl_ecdh_curve nonsense;", "SSL_CTX_set1_curves_list(\"nonsense\") failed"),
        ("ssl_session_cache sometimes;", "invalid session cache \"sometimes\""),
        ("ssl_session_cache shared:a;", "invalid session cache \"shared:a\""),
        ("ssl_session_cache shared:a:1k;", "session cache \"shared:a:1k\" is too small"),
        (
            "ssl_session_cache shared:a:1m; server { ssl_session_cache shared:a:2m; }",
            "the size 2097152 of shared memory zone \"a\" conflicts with already declared size 1048576",
        ),
        ("ssl_certificate_cache valid=1s;", "\"ssl_certificate_cache\" must have the \"max\" parameter"),
        ("ssl_certificate_cache max=0;", "invalid parameter \"max=0\""),
        ("ssl_ech_file key.pem;", "the \"ssl_ech_file\" directive is not supported"),
        ("ssl_stapling_responder ldap://x;", "invalid URL prefix in OCSP responder \"ldap://x\""),
        ("ssl_ocsp_responder x;", "invalid URL prefix in OCSP responder \"x\""),
        ("ssl_ocsp_cache sometimes;", "invalid OCSP cache \"sometimes\""),
        ("ssl_verify_client perhaps;", "invalid value \"perhaps\""),
        ("ssl_password_file none;", "open() \"none\" failed (2: No such file or directory)"),
        (
            "server { ssl_certificate a.crt; }",
            "no \"ssl_certificate_key\" is defined for certificate \"a.crt\"",
        ),
        (
            "server { listen 443 ssl; }",
            "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive",
        ),
        (
            "server { listen 443 ssl; ssl_reject_handshake on; } server { listen 443 ssl; server_name b; }",
            "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive",
        ),
        (
            "server { ssl_certificate a.crt; ssl_certificate_key engine:x:y; }",
            "\"engine:x:y\" is not supported: keys are read from files",
        ),
        (
            "server { ssl_certificate a.crt; ssl_certificate_key a.key; }",
            "cannot load certificate \"a.crt\": BIO_new_file() failed (SSL: error:80000002:system library::2: No such file or directory)",
        ),
        (
            "server { ssl_certificate a; ssl_certificate_key a; ssl_certificate_chain none; }",
            "cannot load certificate \"none\": BIO_new_file() failed (SSL: error:80000002:system library::2: No such file or directory)",
        ),
        (
            "server { ssl_certificate $host; ssl_certificate_key $host; ssl_certificate_chain none; }",
            "\"ssl_certificate_chain\" is incompatible with variables in \"ssl_certificate\"",
        ),
        (
            "server { ssl_own_records off; ssl_conf_command Options KTLS; }",
            "the option KTLS is incompatible with \"ssl_own_records off\"",
        ),
        ("server { ssl_conf_command Nothing x; }", "SSL_CONF_cmd(\"Nothing\", \"x\") failed"),
        ("server { ssl_conf_command Options Nothing; }", "SSL_CONF_cmd(\"Options\", \"Nothing\") failed"),
        ("server { ssl_conf_command MinProtocol TLSv9; }", "SSL_CONF_cmd(\"MinProtocol\", \"TLSv9\") failed"),
        ("server { ssl_conf_command Protocol -ALL; }", "SSL_CONF_cmd(\"Protocol\", \"-ALL\") failed"),
    ]);
}

#[test]
fn what_cannot_be_offered_is_a_warning() {
    messages("ssl_protocols TLSv1.1 TLSv1.2;", &["TLSv1.1 is insecure and not offered"]);
    messages(
        "ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA:DHE-RSA-AES256-SHA;",
        &["cipher AES128-SHA, DHE-RSA-AES256-SHA cannot be offered"],
    );
    messages("ssl_ecdh_curve X25519:secp521r1;", &["group secp521r1 cannot be offered"]);
    messages(
        "ssl_ecdh_curve sect571r2:X25519:X448;",
        &["group X448 cannot be offered", "unknown group \"sect571r2\""],
    );
    messages(
        "server { ssl_conf_command Groups P-256:none; ssl_conf_command CipherString AES128-SHA:HIGH; }",
        &["unknown group \"none\"", "cipher AES128-SHA cannot be offered"],
    );
    messages(
        "ssl_dhparam dh.pem;",
        &[
            "the \"ssl_dhparam\" directive has no effect here: ciphers with finite-field Diffie-Hellman are not offered",
        ],
    );
    messages(
        "server { ssl_conf_command Options PrioritizeChaCha; ssl_conf_command CipherString HIGH; ssl_conf_command Groups X25519; \
         ssl_conf_command SignatureAlgorithms ECDSA+SHA256; ssl_conf_command MaxProtocol TLSv1.3; }",
        &["the option PrioritizeChaCha has no effect here"],
    );
    // Once, whatever the number of servers.
    let servers = "ssl_conf_command Options KTLS; server { listen 1; } server { listen 2; ssl_conf_command Options -KTLS; }";
    let why = brisk_net::kernel_seals().err().map(|error| {
        let why = brisk_conf::os_text(&error);
        format!("the option KTLS has no effect here: the kernel does not seal records ({why})")
    });
    messages(servers, why.as_deref().as_slice());
}
