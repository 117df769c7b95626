//! Cookies between exchanges.

use super::{Exchange, Request};
use brisk_load::jar::Jar;

impl Request {
    /// The same with the jar's cookies for its URL, behind those that it has itself.
    #[must_use]
    pub fn with_cookies(&self, jar: &Jar) -> Self {
        let mut request = self.clone();
        if let Some(cookies) = jar.header(&self.url) {
            match request.fields.0.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("cookie")) {
                Some((_, own)) => *own = format!("{own}; {cookies}"),
                None => request.fields.push("Cookie", cookies),
            }
        }
        request
    }
}

impl Exchange {
    /// Puts the cookies that this answer of a request sets into the jar.
    pub fn fill(&self, jar: &mut Jar, request: &Request) {
        self.fields.all("set-cookie").for_each(|text| jar.set(&request.url, text));
    }
}
