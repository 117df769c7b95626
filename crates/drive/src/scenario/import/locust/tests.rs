//! Files that are read, and files that are refused.

use super::super::super::read;
use super::*;
use crate::scenario::model::Act;
use std::path::Path;

const ARTICLE: &str = "\
from locust import HttpLocust, TaskSet, task

class UserBehavior(TaskSet):
    @task(1)
    def index(self):
        self.client.get(\"/\")

class WebsiteUser(HttpLocust):
    task_set = UserBehavior
    min_wait = 300
    max_wait = 1000
";

fn scenario(source: &str) -> super::super::super::model::Scenario {
    let text = convert(source, None).unwrap();
    read::text(&text, Path::new("")).map_err(|faults| read::show("x", &text, &faults)).unwrap()
}

#[test]
fn the_article_s_file() {
    let text = convert(ARTICLE, Some("http://gallery.example/")).unwrap();
    assert_eq!(
        text,
        "target = \"http://gallery.example\"\n\n[[user]]\nname = \"WebsiteUser\"\nthink = \"300ms..1000ms\"\n\n\
         [[user.step]]\nname = \"index\"\nrequest = \"GET /\"\n"
    );
    assert_eq!(scenario(ARTICLE).users[0].steps.len(), 1);
}

/// As the page prints it, a number has lost its digits: the remedy says so.
#[test]
fn a_wait_that_cannot_be_is_refused() {
    let error = convert(&ARTICLE.replace("1000", "00"), None).unwrap_err();
    assert!(error.starts_with("8: max_wait of 0 is less than min_wait of 300"), "{error}");
    assert!(error.ends_with("max_wait = 1000, Locust's default, was probably meant"), "{error}");
}

#[test]
fn a_file_of_today() {
    let source = r#"
import random
from locust import HttpUser, task, between, constant

class Shop(HttpUser):
    host = "https://shop.example"
    wait_time = between(1, 2.5)
    weight = 3

    def on_start(self):
        self.client.post("/login", json={"user": "ann", "tags": [1, True]},
                         headers={"X-A": "b"})  # once

    @task
    def index(self):
        self.client.get("/")

    @task(3)
    def item(self):
        self.client.post("/item", data={"id": 5, "q": "a b"}, name="item")
"#;
    let scenario = scenario(source);
    let user = &scenario.users[0];
    assert!(user.random && user.start.len() == 1 && user.steps.len() == 2 && user.weight == 3);
    assert_eq!(
        (user.steps[1].terms.weight, user.steps[1].name.as_str(), user.steps[1].method.as_str()),
        (3, "item", "POST")
    );
    let filled = String::from_utf8(user.steps[1].body.fill(&|_| None).unwrap().0).unwrap();
    assert_eq!(filled, "id=5&q=a+b");
}

#[test]
fn answers_are_caught_and_tasks_of_several_calls_are_blocks() {
    let source = r#"
from locust import HttpUser, task, between

class Buyer(HttpUser):
    wait_time = between(1, 2)

    @task(3)
    def look(self):
        with self.client.get("/a", catch_response=True, name="a") as response:
            if response.status_code != 200:
                response.failure("bad")
            elif "total" not in response.text:
                response.failure(f"no total in {response.text}")
            else:
                response.success()
        self.client.get("/b")

    @task
    def other(self):
        self.client.get("/c")
"#;
    let text = convert(source, Some("http://h")).unwrap();
    let user = &scenario(source).users[0];
    assert!(text.contains("check = { status = [200], contains = [\"total\"] }"), "{text}");
    let [Act::Block(look), Act::Step(2)] = &user.acts[..] else { panic!("{:?}", user.acts) };
    assert_eq!(
        (look.acts.len(), look.terms.weight, user.steps[0].checks.len(), user.random),
        (2, 3, 2, true)
    );
}

#[test]
fn anything_else_is_named_and_refused() {
    let task = |body: &str| ARTICLE.replace("self.client.get(\"/\")", body);
    for (source, want) in [
        (task("r = self.client.get(\"/\")"), "6: \"r = self.client.get"),
        (task("self.client.get(f\"/{x}\")"), "6: \"self.client.get(f"),
        (task("self.client.get(url)"), "6: "),
        (task("time.sleep(1)"), "6: \"time.sleep(1)\""),
        (task("self.client.get(\"/\", catch_response=True)"), "6: "),
        (task("if x: self.client.get(\"/\")"), "6: "),
        (format!("import requests\n{ARTICLE}"), "1: \"import requests\""),
        (format!("{ARTICLE}\nx = 5\n"), "13: \"x = 5\""),
        (ARTICLE.replace("task_set = UserBehavior", "task_set = Other"), "8: WebsiteUser uses Other"),
        (ARTICLE.replace("    @task(1)\n", ""), "\"index\" is neither a task nor on_start"),
        (ARTICLE.replace("(TaskSet)", "(SequentialTaskSet)"), "3: "),
        (String::new(), "no class of users"),
    ] {
        let error = convert(&source, None).unwrap_err();
        assert!(error.contains(want), "{source}: {error}");
    }
}
