//! `examples/bank`: PHP and MariaDB of its own behind Brisk, used as customers do, and as those who are none.

use brisk_testkit::{Client, Response, TempDir, browser, ports};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

struct Bank {
    dir: TempDir,
    port: ports::Port,
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bank")
}

impl Bank {
    fn up() -> Bank {
        let bank = Bank { dir: TempDir::new(), port: ports::claim() };
        // The processes are nobody's if the test is root's.
        fs::set_permissions(bank.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let output = bank.script("up");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        bank
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("bank")
    }

    fn script(&self, what: &str) -> Output {
        let mut command = Command::new(example().join("bank.sh"));
        command.arg(what).env("BRISK", BIN).env("BANK_DIR", self.folder());
        command.env("BANK_PORT", self.port.number.to_string()).output().expect("the script starts")
    }

    fn ask(&self, method: &str, target: &str, token: &str, form: &str) -> Response {
        let host = self.port.number;
        let cookie = if token.is_empty() { String::new() } else { format!("Cookie: token={token}\r\n") };
        let length = if method == "POST" {
            format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", form.len())
        } else {
            String::new()
        };
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{host}\r\n{cookie}{length}\r\n{form}");
        Client::connect(self.port.number).request(request)
    }

    /// The token of a customer, by the number of the line in people.csv.
    fn log_in(&self, line: usize) -> String {
        let people = fs::read_to_string(self.folder().join("people.csv")).unwrap();
        let (login, password) = people.lines().nth(line).unwrap().split_once(',').unwrap();
        let response = self.ask("POST", "/login", "", &format!("login={login}&password={password}"));
        assert_eq!(
            (response.status, response.header("Location")),
            (303, Some("/account")),
            "{}",
            response.text()
        );
        let set = response.header("Set-Cookie").unwrap();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
        set.split(['=', ';']).nth(1).unwrap().to_owned()
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.folder().join("log/brisk.log")).unwrap_or_default());
        }
        self.script("down");
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before}: {text}"));
    rest.split_once(after).unwrap().0
}

#[test]
fn the_bank_serves_its_customers_and_nobody_else() {
    let bank = Bank::up();
    assert!(bank.ask("GET", "/", "", "").text().contains("<h1>Log in</h1>"));
    let url = format!("http://127.0.0.1:{}/", bank.port.number);
    browser::asks_as_chromium(
        BIN,
        &bank.folder().join("log/access.log"),
        &url,
        &bank.dir.path().join("chromium"),
    );
    for form in ["login=customer1&password=wrong", "login=nobody&password=x", "login='+OR+1=1+--+&password=x"]
    {
        let response = bank.ask("POST", "/login", "", form);
        assert!(response.status == 403 && response.header("Set-Cookie").is_none(), "{form}");
    }
    // What is no token of ours never reaches PHP, which alone would say Content-Security-Policy.
    let token = bank.log_in(1);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let forged = [
        String::new(),
        "x".into(),
        format!("{signed}.{}", signature.chars().rev().collect::<String>()),
        // {"alg":"none"} {"sub":1,"exp":9999999999}
        "eyJhbGciOiJub25lIn0.eyJzdWIiOjEsImV4cCI6OTk5OTk5OTk5OX0.".into(),
    ];
    for token in &forged {
        let response = bank.ask("GET", "/account", token, "");
        assert_eq!((response.status, response.header("Location")), (303, Some("/")), "{token}");
        assert_eq!(response.header("Content-Security-Policy"), None, "{token}");
    }

    let account = |token: &str| bank.ask("GET", "/account", token, "").text();
    let page = account(&token);
    assert!(page.contains("Accounts of Customer No. 1<") && page.contains("Latest transfers"), "{page}");
    let form = between(&page, "name=\"form\" value=\"", "\"").to_owned();
    let transfer = |token: &str, fields: &str| bank.ask("POST", "/transfer", token, fields).status;
    let reason = "%3Cscript%3Ealert(1)%3C/script%3E";
    assert_eq!(transfer(&token, &format!("form={form}&from=1&to=3&amount=12.34&reason={reason}")), 303);
    // Escaped, also on the page of who got it.
    for page in [account(&token), account(&bank.log_in(2))] {
        assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script"), "{page}");
        assert!(page.contains("12.34"), "{page}");
    }
    for (fields, status) in [
        ("from=1&to=3&amount=1.00", 403),
        ("form=FORM&from=3&to=1&amount=1.00", 409),
        ("form=FORM&from=1&to=3&amount=999999999", 409),
        ("form=FORM&from=1&to=3&amount=-5", 400),
        ("form=FORM&from=1&to=1&amount=1", 409),
    ] {
        assert_eq!(transfer(&token, &fields.replace("FORM", &form)), status, "{fields}");
    }
    // A form of one customer is no other's.
    assert_eq!(transfer(&bank.log_in(2), &format!("form={form}&from=3&to=1&amount=1")), 403);
    assert_eq!(bank.ask("GET", "/src/bank.php", "", "").status, 404);
    assert_eq!(bank.ask("POST", "/logout", &token, "").status, 303);
}

#[test]
fn the_scenario_of_its_customers_runs() {
    let bank = Bank::up();
    let dir = bank.dir.path();
    fs::copy(example().join("users.toml"), dir.join("users.toml")).unwrap();
    fs::copy(bank.folder().join("people.csv"), dir.join("people.csv")).unwrap();
    let mut command = Command::new(BIN);
    command.args(["bench", "run", "-u", "3", "-d", "6s", "--target"]);
    let output = command
        .arg(format!("http://127.0.0.1:{}", bank.port.number))
        .arg(dir.join("users.toml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("move money"), "{said}");
}
