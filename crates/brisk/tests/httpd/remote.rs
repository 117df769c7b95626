//! mod_remoteip beside Apache: of whom a proxy may speak.

use crate::{BIN, HEAD, difference, start};
use brisk_testkit::apache::open_to_all;
use brisk_testkit::{Apache, Builder};

const MODULES: [&str; 6] = ["mpm_event", "authz_core", "authz_host", "headers", "mime", "remoteip"];

/// Who asks is a proxy that is merely trusted, or one of the own network.
const SITES: &str = r#"
TypesConfig ROOT/mime.types
ServerName main.example
DocumentRoot ROOT/www
<Directory ROOT>
  Require all granted
</Directory>
Header always set X-Client "expr=%{REMOTE_ADDR}"
<Location /inner>
  Require ip 10.0.0.0/8 127.0.0.0/8
</Location>
<VirtualHost *:PORT>
  ServerName trusted.example
  RemoteIPHeader X-Forwarded-For
  RemoteIPTrustedProxy 127.0.0.1 198.51.100.1
  RemoteIPInternalProxy 10.0.0.1 198.51.100.2
</VirtualHost>
<VirtualHost *:PORT>
  ServerName listed.example
  RemoteIPHeader X-Client-IP
  RemoteIPTrustedProxyList ROOT/proxies.txt
</VirtualHost>
<VirtualHost *:PORT>
  ServerName internal.example
  RemoteIPHeader X-Forwarded-For
  RemoteIPInternalProxy 127.0.0.1 10.0.0.1
  RemoteIPTrustedProxy 198.51.100.1 10.0.0.0/8
</VirtualHost>
"#;

#[test]
fn a_trusted_proxy_speaks_for_no_client_within() {
    let mut builder = Builder::new(BIN)
        .file("sites/mime.types", "text/plain txt\n")
        .file("sites/proxies.txt", "127.0.0.1 # ours\n198.51.100.1\n")
        .file("sites/www/a.txt", "a")
        .file("sites/www/inner/a.txt", "inner");
    let root = builder.dir().join("sites");
    open_to_all(builder.dir());
    let sites = builder.fill(&SITES.replace("ROOT", &root.display().to_string()).replace("PORT", "*"));
    let loads: Vec<String> = MODULES.map(|m| format!("LoadModule {m}_module x/mod_{m}.so\n")).into();
    let brisk = start(builder, &format!("{HEAD}{}{sites}", loads.concat()));
    let apache = Apache::start(&MODULES, &sites);
    let mut differences = String::new();
    for host in ["trusted.example", "listed.example", "internal.example"] {
        for chain in [
            "203.0.113.9",
            "10.1.2.3",
            "192.168.1.1",
            "172.16.0.1",
            "172.32.0.1",
            "169.254.0.1",
            "127.0.0.1",
            "2001:db8::1",
            "fe80::1",
            "::1",
            "203.0.113.9, 198.51.100.1",
            "10.1.2.3, 198.51.100.1",
            "10.1.2.3, 198.51.100.2",
            "10.1.2.3, 10.0.0.1",
            "10.1.2.3, 10.0.0.1, 198.51.100.1",
            "10.1.2.3, 10.0.0.2",
            "10.1.2.3, 203.0.113.9",
            "nobody, 198.51.100.1",
        ] {
            for target in ["/a.txt", "/inner/a.txt"] {
                // Lines of a proxy that appends one stand behind the client's own.
                let lines = |name: &str| -> String {
                    let lines: Vec<String> =
                        chain.split(", ").map(|part| format!("{name}: {part}\r\n")).collect();
                    lines.concat()
                };
                let names = ["X-Forwarded-For", "X-Client-IP"];
                let fields: String = match target {
                    "/a.txt" => names.map(|name| format!("{name}: {chain}\r\n")).concat(),
                    _ => names.map(lines).concat(),
                };
                differences += &difference(&brisk, &apache, (host, target, &fields), 1);
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
