//! Statements and where they may go.

use super::*;
use proptest::prelude::*;

fn check(class: Class, statements: &[&str]) {
    for statement in statements {
        assert_eq!(classify(statement.as_bytes(), Backslashes::Unknown).class, class, "{statement}");
    }
}

#[test]
fn reads_of_tables_may_go_to_replicas() {
    check(
        Class::Read,
        &[
            "SELECT 1",
            " select * from t where a = 'x''y' -- c",
            "(SELECT a FROM t) UNION (SELECT b FROM u) ORDER BY 1 LIMIT 3",
            "SELECT COUNT(*), MAX(id), IF(a, b, c) FROM `db`.`t` USE INDEX FOR ORDER BY (i) WHERE a IN (1, 2)",
            "SELECT SQL_CALC_FOUND_ROWS wp_posts.ID FROM wp_posts WHERE 1=1 AND (post_type = 'post')",
            "WITH c AS (SELECT 1) SELECT * FROM c",
            "SELECT REPLACE(a, 'x', 'y'), INSERT(a, 1, 2, 'z'), SUBSTRING(a FROM 1 FOR 3) FROM t;",
            "SELECT CAST(a AS DECIMAL(10, 2)), SLEEP (0) FROM t",
            "SELECT 'Grüße 日本'",
            "SELECT '/*! x */', '@a', 'FOR UPDATE'",
            "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) FROM t",
            "SELECT 1; SELECT 2",
            "SELECT /*+ MAX_EXECUTION_TIME(10) */ a FROM t WHERE b IN (1) AND (c) LIMIT 1",
            "SELECT name FROM mysql_users WHERE sys = 1",
        ],
    );
}

#[test]
fn what_asks_about_the_statement_before_goes_where_that_went() {
    check(
        Class::AfterLast,
        &[
            "SHOW WARNINGS",
            "show count(*) errors",
            "SELECT FOUND_ROWS()",
            "SELECT ROW_COUNT()",
            "SELECT @@warning_count",
            "SELECT @@session.error_count",
        ],
    );
}

#[test]
fn what_the_primary_knows_is_read_there() {
    check(
        Class::PrimaryRead,
        &[
            "SELECT * FROM t WHERE id = 1 FOR UPDATE",
            "SELECT * FROM t FOR SHARE SKIP LOCKED",
            "SELECT * FROM t LOCK IN SHARE MODE",
            "SELECT @@SESSION.sql_mode",
            "SELECT LAST_INSERT_ID()",
            "SELECT CONNECTION_ID(), 1",
            "SHOW TABLES LIKE 'x'",
            "SELECT * FROM information_schema.processlist",
            "SELECT * FROM `mysql`.`user`",
            "EXPLAIN SELECT 1",
            "EXPLAIN FORMAT=JSON UPDATE t SET a = 1",
            "DESCRIBE t",
        ],
    );
}

#[test]
fn settings_are_told_to_replicas() {
    check(
        Class::Setting,
        &[
            "SET NAMES utf8mb4",
            "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_520_ci'",
            "SET CHARACTER SET latin1",
            "SET SESSION sql_mode='NO_ENGINE_SUBSTITUTION'",
            "SET @@session.time_zone = '+00:00', sql_big_selects=1",
            "SET time_zone = '+01:00';",
            "USE shop",
            "use `shop`",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET sql_mode = ANSI_QUOTES",
            "SET sql_auto_is_null = 0",
            "SET SESSION sql_auto_is_null = OFF, sql_big_selects = 1",
        ],
    );
    check(Class::Write, &["SET autocommit=0", "SET @@autocommit = ON", "SET SESSION autocommit=1"]);
    check(
        Class::Pin(Pin::Set),
        &[
            "SET NAMES gbk",
            "SET NAMES DEFAULT",
            "SET GLOBAL max_connections = 5",
            "SET sql_mode='ORACLE'",
            "SET sql_mode=ORACLE",
            "SET sql_mode=CONCAT(@@sql_mode, ',x')",
            "SET sql_mode=DEFAULT",
            "SET sql_mode=512",
            "SET sql_mode=0x200",
            "SET sql_mode=0",
            "SET sql_auto_is_null=1",
            "SET sql_auto_is_null=ON",
            "SET sql_auto_is_null='ON'",
            "SET character_set_client=28",
            "SET x = 1",
            "SET autocommit=0, sql_mode=''",
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SET PASSWORD = 'x'",
            "SET ROLE r",
            "SET STATEMENT max_statement_time=1 FOR SELECT 1",
            "SET sql_mode='', GLOBAL x=1",
            "SET NAMES utf8; SET NAMES latin1",
            "USE shop; INSERT INTO t VALUES (1)",
            "DELETE FROM t; SET NAMES latin1; SELECT 1",
            "SET autocommit = 0; SET sql_mode = ''",
            "SET last_insert_id = 5",
            "SET PERSIST sql_mode = ''",
            "SET",
        ],
    );
}

#[test]
fn writes_go_to_the_primary() {
    check(
        Class::Write,
        &[
            "INSERT INTO t (a, b) VALUES (1, NOW())",
            "insert ignore into `db`.`t`(a) select b from u",
            "REPLACE t(a) VALUES ('x')",
            "UPDATE t SET a = a + 1",
            "DELETE FROM t",
            "WITH c AS (SELECT 1) DELETE FROM t",
            "SELECT 1; DELETE FROM t",
            "SELECT a INTO OUTFILE '/tmp/x' FROM t",
            "SELECT NEXT VALUE FOR s",
            "SELECT s.nextval",
            "SELECT PREVIOUS VALUE FOR s",
            "CREATE TABLE t (a VARCHAR(10))",
            "TRUNCATE t",
            "DROP TABLE t",
            "BEGIN",
            "START TRANSACTION",
            "COMMIT",
            "EXPLAIN ANALYZE SELECT 1",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (a, b)",
            "",
            ";",
            "-- nothing",
            "INSERT INTO t SET a = 'x@y'",
        ],
    );
}

#[test]
fn what_leaves_something_in_the_connection_keeps_it() {
    check(
        Class::Pin(Pin::UserVariable),
        &[
            "SELECT @a",
            "SET @a = 1",
            "SELECT @a := 5",
            "INSERT INTO t VALUES (@a)",
            "UPDATE t SET a = (@x)",
            "SELECT 1 INTO @a",
            "LOAD DATA INFILE 'x' INTO TABLE t (@a)",
        ],
    );
    check(
        Class::Pin(Pin::TemporaryTable),
        &["CREATE TEMPORARY TABLE t (a INT)", "create or replace temporary table t like u"],
    );
    check(
        Class::Pin(Pin::Lock),
        &[
            "LOCK TABLES t WRITE",
            "UNLOCK TABLES",
            "SELECT GET_LOCK('a', 1)",
            "CREATE TABLE t SELECT GET_LOCK('a', 1)",
            "CREATE TABLE t AS VALUES (GET_LOCK('a', 1))",
            "EXPLAIN SELECT GET_LOCK('a', 1)",
            "KILL GET_LOCK('a', 1)",
            "select release_lock ('a')",
            "DO GET_LOCK('a', 1)",
            "FLUSH TABLES WITH READ LOCK",
        ],
    );
    check(Class::Pin(Pin::Open), &["HANDLER t OPEN", "PREPARE s FROM 'SELECT 1'", "EXECUTE s"]);
    check(
        Class::Pin(Pin::Routine),
        &[
            "CALL p()",
            "SELECT f(1)",
            "LOAD DATA INFILE 'x' INTO TABLE t SET a = f()",
            "CREATE TABLE t AS SELECT f() FROM u",
            "SELECT db.now()",
            "SELECT now ()",
            "SELECT COUNT /* all */ (*) FROM t",
            "SELECT nextval('s')",
            "SELECT 1 FROM t WHERE lateral(1)",
            "SELECT any_value(a) FROM t",
            "SELECT `now`()",
            "SELECT \"f\" (1)",
            "INSERT INTO t VALUES (f())",
            "UPDATE t SET a = f()",
            "SELECT 1 FROM t WHERE f/**/(a)",
            "SELECT * FROM t PROCEDURE ANALYSE()",
        ],
    );
}

#[test]
fn what_is_not_known_keeps_the_connection() {
    check(Class::Pin(Pin::Xa), &["XA START 'x'"]);
    check(
        Class::Pin(Pin::OwnDatabase),
        &["USE information_schema", "USE `MySQL`", "DROP DATABASE x", "drop schema if exists x"],
    );
    check(
        Class::Pin(Pin::ExecutableComment),
        &[
            "SELECT /*!40001 SQL_NO_CACHE */ 1",
            "/*M!100100 DELETE */ SELECT 1",
            "SELECT /*+ QB_NAME(`*/ '`) */ f() /*'*/",
        ],
    );
    check(
        Class::Pin(Pin::Unclear),
        &[
            "SELECT 'a",
            "SELECT 1 /* x",
            "SELECT `a",
            "FROBNICATE",
            "VALUES (1)",
            "(DELETE FROM t)",
            "HELP 'x'",
            "RESET MASTER",
            "SELECT 1\0; DELETE FROM t",
            "BINLOG 'x'",
            "GET DIAGNOSTICS x",
            "SHUTDOWN",
            "CHANGE MASTER TO x = 1",
        ],
    );
    assert_eq!(classify(b"SELECT '\xbf\x5c'", Backslashes::Unknown).class, Class::Pin(Pin::Unclear));
}

#[test]
fn a_statement_is_judged_by_each_way_to_read_its_quotes() {
    // It does not end for a server without escapes.
    assert_eq!(classify(br"SELECT 'it\'s' FROM t", Backslashes::Unknown).class, Class::Pin(Pin::Unclear));
    assert_eq!(classify(br"SELECT 'C:\x' FROM t", Backslashes::Unknown).class, Class::Read);
    // A text to a server with escapes, a second statement to one without.
    assert_ne!(classify(br"SELECT '\'; DELETE FROM t; -- '", Backslashes::Unknown).class, Class::Read);
    assert_ne!(classify(br#"SELECT "\"; DELETE FROM t; -- ""#, Backslashes::Unknown).class, Class::Read);
    assert_ne!(classify(br"SELECT '\', f(), '", Backslashes::Unknown).class, Class::Read);
}

#[test]
fn a_known_mode_leaves_fewer_ways_to_read() {
    use Backslashes::{Escape, Plain};
    let class = |text: &str, backslashes| classify(text.as_bytes(), backslashes).class;
    assert_eq!(class(r"SELECT 'it\'s' FROM t", Escape), Class::Read);
    assert_eq!(class(r"SELECT 'it\'s' FROM t", Plain), Class::Pin(Pin::Unclear));
    assert_eq!(class(r"SELECT 'C:\' FROM t", Plain), Class::Read);
    assert_eq!(class(r"SELECT 'C:\' FROM t", Escape), Class::Pin(Pin::Unclear));
    assert_eq!(class(r"SELECT '\'; DELETE FROM t; -- '", Escape), Class::Read);
    assert_eq!(class(r"SELECT '\'; DELETE FROM t; -- '", Plain), Class::Write);
    assert_eq!(class(r"SELECT '\\'; DELETE FROM t; -- '", Escape), Class::Write);
    // Nobody tells of ANSI_QUOTES.
    assert_eq!(class(r#"SELECT "\"; DELETE FROM t; -- ""#, Escape), Class::Write);
    assert_eq!(classify(br"SELECT '\'/* brisk:replica */'", Plain).hint, Some(Hint::Replica));
    assert_eq!(classify(br"SELECT '\'/* brisk:replica */'", Escape).hint, None);
}

#[test]
fn hints_are_told() {
    let hint = |text: &str| classify(text.as_bytes(), Backslashes::Unknown).hint;
    assert_eq!(hint("/* brisk:primary */ SELECT 1"), Some(Hint::Primary));
    assert_eq!(hint("SELECT 1 /*brisk:replica*/"), Some(Hint::Replica));
    assert_eq!(hint("/* brisk:replica */ SELECT 1 /* brisk:primary */"), Some(Hint::Primary));
    assert_eq!(hint("SELECT '/* brisk:replica */'"), None);
    assert_eq!(hint(r"SELECT '\'/* brisk:replica */'"), None);
    assert_eq!(hint("/* brisk:elsewhere */ SELECT 1"), None);
}

#[test]
fn what_is_asked_of_the_connection_is_known() {
    let asks = |text: &str, last: bool, insert_id: bool| {
        let verdict = classify(text.as_bytes(), Backslashes::Unknown);
        assert_eq!(verdict.asks, Asks { last, insert_id }, "{text}");
    };
    for text in [
        "SELECT FOUND_ROWS()",
        "DO ROW_COUNT()",
        "show errors",
        "SELECT @@local.error_count",
        "GET DIAGNOSTICS a = NUMBER",
    ] {
        asks(text, true, false);
    }
    for text in [
        "SELECT last_insert_id( )",
        "SELECT @@IDENTITY",
        "SELECT 1; DELETE FROM t WHERE a = LAST_INSERT_ID()",
    ] {
        asks(text, false, true);
    }
    asks("SELECT LAST_INSERT_ID(), ROW_COUNT()", true, true);
    asks(r"SELECT '\', FOUND_ROWS(), '", true, false);
    for text in [
        "SELECT identity, last_insert_id, found_rows FROM t",
        "SELECT 'LAST_INSERT_ID()' -- FOUND_ROWS()",
        "INSERT INTO t VALUES (1); SELECT LAST_INSERT_ID(), ROW_COUNT()",
        "SHOW TABLES",
        "SELECT @@global.identity",
    ] {
        asks(text, false, false);
    }
}

#[test]
fn settings_are_told_apart() {
    for (text, want) in [
        ("USE shop", Chooses::Database(b"shop")),
        ("use `Shop-1` ; -- x", Chooses::Database(b"Shop-1")),
        ("USE \"shop\"", Chooses::Database(b"shop")),
        ("USE `a``b`", Chooses::OtherDatabase),
        ("USE `ü`", Chooses::OtherDatabase),
        ("/* brisk:primary */ SET NAMES utf8 COLLATE utf8_bin", Chooses::Names),
        ("SET names = 1", Chooses::Names),
        ("SET CHARACTER SET latin1", Chooses::Other),
        ("SET time_zone = 'NAMES'", Chooses::Other),
    ] {
        assert_eq!(chosen_by(text.as_bytes()), want, "{text}");
    }
}

/// As MariaDB 10.11 has them; all others are as ASCII up to 0x7f.
#[test]
fn some_character_sets_are_not_plain() {
    let plain = |collation| is_plain_charset(collation);
    for collation in
        [1, 10, 13, 28, 82, 84, 87, 88, 95, 96, 248, 1025, 1034, 1037, 1052, 1106, 1111, 1120, 7, 1031]
    {
        assert!(!plain(collation), "{collation}");
    }
    for (collation, may) in [
        (8, true),
        (33, true),
        (63, true),
        (192, true),
        (35, false),
        (1059, false),
        (2048, true),
        (2559, true),
        (2560, false),
        (1069, true),
        (101, false),
        (160, false),
    ] {
        assert_eq!(is_of_clients(collation), may, "{collation}");
    }
    for collation in [3, 8, 32, 33, 45, 63, 83, 192, 224, 255, 303, 1069, 1216, 2048, 2304] {
        assert!(plain(collation), "{collation}");
    }
}

proptest! {
    #[test]
    fn nothing_behind_a_second_statement_is_a_read(text in "[a-z '\"`\\\\/*#;()@-]{0,20}") {
        // Whatever comes before: a read is a read only if all of it is.
        let class = classify(format!("SELECT 1; DELETE FROM t; {text}").as_bytes(), Backslashes::Unknown).class;
        prop_assert!(class >= Class::Write);
        let class = classify(format!("{text}\nDELETE FROM t").as_bytes(), Backslashes::Unknown).class;
        // A quote or a comment may hold it, and SHOW makes an error of it.
        let is_cut_off = text.contains(['\'', '"', '`', '*']) || text.contains("show");
        prop_assert!(class >= Class::Write || is_cut_off, "{}", text);
    }
}
