//! Against the `h2` crate: its client talks to our server side, many requests on one connection, so that the tables of both
//! directions fill, turn over and are resized. What one encodes the other reads, field by field.

use brisk_h2::conn::{Config, HeadKind, HeadSink, Role};
use brisk_h2::hpack::{Encoder, Field, FieldSink, Indexing};
use brisk_h2::{Connection, Event};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

type Fields = Vec<(String, Vec<u8>)>;

#[derive(Default)]
struct Seen(Fields);

impl FieldSink for Seen {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        self.0.push((String::from_utf8_lossy(field.name).into_owned(), field.value.to_vec()));
    }
}

impl HeadSink for Seen {
    fn begin(&mut self, _: u64, _: HeadKind) {
        self.0.clear();
    }

    fn is_interim(&self) -> bool {
        false
    }
}

/// Answers each request with what its answer is to be; gives the fields that were read.
async fn serve(mut io: DuplexStream, answers: Vec<Fields>) -> Vec<Fields> {
    let mut out = Vec::new();
    let mut conn: Connection<()> = Connection::new(Role::Server, Config::default(), 0, &mut out);
    let (mut encoder, mut table_size) = (Encoder::new(4096), 4096);
    let (mut heads, mut input, mut read) = (Seen::default(), Vec::new(), Vec::new());
    loop {
        let received = conn.receive(&input, &mut heads, &mut out).expect("the other one keeps to the rules");
        let used = received.used;
        let head = match received.event {
            Some(Event::Head { stream, .. }) => Some(stream),
            _ => None,
        };
        if let Some(stream) = head {
            let wanted = conn.peer_settings().header_table_size;
            if table_size != wanted {
                table_size = wanted;
                encoder.set_size_max(wanted as usize);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            encoder.field(b":status", b"200", Indexing::Add, &mut block);
            for (at, (name, value)) in answers[read.len()].iter().enumerate() {
                let indexing = [Indexing::Add, Indexing::Without, Indexing::Add, Indexing::Never][at % 4];
                encoder.field(name.as_bytes(), value, indexing, &mut block);
            }
            conn.send_head(stream, &block, true, &mut out).unwrap();
            read.push(std::mem::take(&mut heads.0));
        }
        input.drain(..used);
        if used > 0 || head.is_some() {
            continue;
        }
        if !out.is_empty() && io.write_all(&std::mem::take(&mut out)).await.is_err() {
            return read;
        }
        if io.read_buf(&mut input).await.unwrap_or(0) == 0 {
            return read;
        }
    }
}

/// Sends the requests one after the other; gives the fields of the answers.
async fn ask(io: DuplexStream, requests: Vec<Fields>, table_size: u32) -> Vec<Fields> {
    let mut builder = h2::client::Builder::new();
    builder.header_table_size(table_size);
    let (sender, connection) = builder.handshake::<_, bytes::Bytes>(io).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut answers = Vec::new();
    for fields in requests {
        let mut request = http::Request::builder().uri("https://peer.example/path?query");
        for (name, value) in fields {
            request = request.header(name, value);
        }
        let mut ready = sender.clone().ready().await.unwrap();
        let (response, _) = ready.send_request(request.body(()).unwrap(), true).unwrap();
        let response = response.await.unwrap();
        let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.as_str().to_string(), value.as_bytes().to_vec())
        };
        answers.push(response.headers().iter().map(field).collect());
    }
    drop(sender);
    connection.await.unwrap().unwrap();
    answers
}

/// Without pseudo headers; by name, since the order of different names is nobody's promise.
fn sorted(mut fields: Fields) -> Fields {
    fields.retain(|(name, _)| !name.starts_with(':'));
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields
}

fn fields() -> impl Strategy<Value = Fields> {
    let name = prop_oneof![
        Just("cookie".to_string()),
        Just("content-type".to_string()),
        Just("user-agent".to_string()),
        "x-[a-e]{1,3}",
    ];
    let byte = prop_oneof![0x21..0x7f_u8, 0x80..0xff_u8];
    let value = prop_oneof![
        Just(Vec::new()),
        "[x-z]{1,2}".prop_map(String::into_bytes),
        "[ -~]{0,80}".prop_map(|text| text.trim().as_bytes().to_vec()),
        proptest::collection::vec(byte, 0..300),
    ];
    proptest::collection::vec((name, value), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_reads_what_the_other_writes(
        exchanges in proptest::collection::vec((fields(), fields()), 1..12),
        table_size in prop_oneof![Just(0_u32), Just(100), Just(4096), Just(65_536)],
    ) {
        let (requests, answers): (Vec<Fields>, Vec<Fields>) = exchanges.into_iter().unzip();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (theirs, ours) = tokio::io::duplex(1 << 16);
        let (read, answered) = runtime.block_on(async {
            let server = tokio::spawn(serve(ours, answers.clone()));
            let answered = ask(theirs, requests.clone(), table_size).await;
            (server.await.unwrap(), answered)
        });
        let all = |list: Vec<Fields>| list.into_iter().map(sorted).collect::<Vec<_>>();
        prop_assert_eq!(all(read), all(requests));
        prop_assert_eq!(all(answered), all(answers));
    }
}
