"use strict";
// Draws what "?data" answers each second. Texts of others (URLs, names) only ever become text nodes.

const SECONDS_MAX = 600, MINUTES_MAX = 1440;
// A server that has not answered by then hangs.
const ANSWER_MS_MAX = 5000;
// A change that has failed is told for so long.
const TOLD_MS = 10000;
const SVG = "http://www.w3.org/2000/svg";
// Without the name and password that the page's own address may hold: no request can be made to such an address.
const PAGE = location.origin + location.pathname;
// Columns of texts that may be long.
const LONG = ["Back end", "Where", "Write"];
const CLASSES = ["1xx", "2xx", "3xx", "4xx", "5xx"];

const state = { seconds: [], minutes: [], data: null, counters: new Map(), day: false, paused: false, toldUntil: 0 };

/* Elements */

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/* Numbers */

function number(value) {
  if (!Number.isFinite(value)) return "–";
  if (value >= 1e9) return (value / 1e9).toFixed(1) + " G";
  if (value >= 1e6) return (value / 1e6).toFixed(1) + " M";
  if (value >= 1e4) return (value / 1e3).toFixed(1) + " k";
  if (value >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return value.toFixed(value < 1 ? 2 : 1);
}

function bytes(value) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return (value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)) + " " + unit;
    value /= 1024;
  }
  return value.toFixed(1) + " TiB";
}

function time(us) {
  if (us === null || us === undefined || !Number.isFinite(us)) return "–";
  if (us < 1000) return Math.round(us) + " µs";
  if (us < 1e6) return (us / 1e3).toFixed(us < 1e4 ? 1 : 0) + " ms";
  return (us / 1e6).toFixed(1) + " s";
}

const percent = (share) => (Number.isFinite(share) ? (share * 100).toFixed(share < 0.1 ? 1 : 0) + " %" : "–");
const sum = (values) => values.reduce((a, b) => a + b, 0);
const clock = (secs) => new Date(secs * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

/* What came */

function periods(columns) {
  const names = Object.keys(columns);
  return columns.unix_secs.map((_, at) => Object.fromEntries(names.map((name) => [name, columns[name][at]])));
}

function take(data) {
  const own = data.own;
  if (state.data && (state.data.own.pid !== own.pid)) {
    // Another worker counts from the beginning.
    state.seconds = [];
    state.minutes = [];
    state.counters.clear();
  }
  // Two looks at a time, of which one follows a change, bring the same periods.
  const fresh = (known, columns) => {
    const last = known.length ? known[known.length - 1].unix_secs : -Infinity;
    return periods(columns).filter((each) => each.unix_secs > last);
  };
  state.seconds = state.seconds.concat(fresh(state.seconds, own.history.seconds)).slice(-SECONDS_MAX);
  state.minutes = state.minutes.concat(fresh(state.minutes, own.history.minutes)).slice(-MINUTES_MAX);
  state.data = data;
}

const family = (name) => (state.data.status[name] || { values: [] }).values;
const total = (name, labels) => sum(family(name)
  .filter((each) => Object.entries(labels || {}).every(([label, value]) => each.labels[label] === value))
  .map((each) => each.value));

/* How fast a counter rises, by what it was at the look before. */
function rate(key, value) {
  const now = state.data.own.now_ms;
  const before = state.counters.get(key);
  if (before && before.now === now) return before.rate;
  const rising = before && value >= before.value && now > before.now ? (value - before.value) / (now - before.now) * 1000 : NaN;
  state.counters.set(key, { now, value, rate: rising });
  return rising;
}

/* Tiles */

const tiles = new Map();

function tile(key, value, label, bad) {
  let parts = tiles.get(key);
  if (!parts) {
    parts = { value: make("b"), label: make("span"), box: make("div", { class: "tile" }) };
    parts.box.append(parts.value, parts.label);
    document.getElementById("tiles").append(parts.box);
    tiles.set(key, parts);
  }
  say(parts.value, value);
  say(parts.label, label);
  parts.box.classList.toggle("bad", Boolean(bad));
}

function showTiles() {
  // Of the last five seconds: one alone jumps.
  const last = state.seconds.slice(-5);
  const length = sum(last.map((each) => each.length_ms)) / 1000;
  const classes = CLASSES.map((_, at) => sum(last.map((each) => each.classes[at])));
  const requests = sum(classes);
  const busy = last.filter((each) => each.p50_us !== null);
  const worst = (name) => (busy.length ? Math.max(...busy.map((each) => each[name])) : null);
  const now = last[last.length - 1];
  tile("rate", length ? number(requests / length) : "–", "requests per second");
  tile("errors", requests ? percent(classes[4] / requests) : "–", "failed (5xx)", requests && classes[4] / requests > 0.01);
  tile("refused", requests ? percent(classes[3] / requests) : "–", "refused (4xx)");
  tile("p50", time(worst("p50_us")), "half within (p50)");
  tile("p95", time(worst("p95_us")), "95 % within (p95)");
  tile("p99", time(worst("p99_us")), "99 % within (p99)");
  tile("connections", now ? number(now.connections) : "–", "connections open");
  tile("cpu", length ? percent(sum(last.map((each) => each.cpu_us)) / 1e6 / length) : "–", "of one CPU, " + state.data.own.threads + " threads");
  tile("memory", now ? bytes(now.memory_bytes) : "–", "memory");
}

/* Charts */

const charts = new Map();

function chart(key, title, series, format, options) {
  let parts = charts.get(key);
  if (!parts) {
    parts = { box: make("div", { class: "card" }), legend: make("ul", { class: "legend" }) };
    parts.svg = draw("svg", { role: "img", preserveAspectRatio: "none" });
    parts.items = series.map((each) => {
      const text = make("span");
      parts.legend.append(make("li", {}, make("i", { class: each.color }), text));
      return text;
    });
    parts.box.append(make("h2", {}, title), parts.svg, parts.legend);
    document.getElementById("charts").append(parts.box);
    charts.set(key, parts);
  }
  const all = state.day ? state.minutes : state.seconds;
  const span = state.day ? 86400 : 600;
  const end = state.data.own.now_ms / 1000;
  const width = Math.max(parts.svg.clientWidth, 200), height = Math.max(parts.svg.clientHeight, 100);
  const left = 52, bottom = 18, top = 8;
  const x = (secs) => left + (width - left - 4) * (1 - (end - secs) / span);
  const values = all.map((period) => series.map((each) => each.of(period)));
  const stacked = Boolean(options && options.stacked);
  const tops = values.map((row) => (stacked ? sum(row) : Math.max(0, ...row.filter((value) => value !== null))));
  const most = round(Math.max(options && options.least || 0, ...tops), format === bytes);
  const y = (value) => top + (height - top - bottom) * (1 - value / most);
  const shapes = [];
  for (const share of [0, 0.5, 1]) {
    const at = y(most * share);
    shapes.push(draw("path", { class: "grid", d: `M${left} ${at}H${width - 4}` }));
    shapes.push(draw("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, format(most * share)));
  }
  for (const share of [0, 0.5, 1]) {
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    const at = left + (width - left - 4) * share;
    shapes.push(draw("text", { x: at, y: height - 3, "text-anchor": anchor }, clock(end - span * (1 - share))));
  }
  if (stacked) shapes.push(...areas(all, values, series, x, y));
  else shapes.push(...lines(all, values, series, x, y));
  parts.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  parts.svg.replaceChildren(...shapes);
  const latest = values[values.length - 1];
  const words = series.map((each, at) => `${each.name} ${latest && latest[at] !== null ? format(latest[at]) : "–"}`);
  parts.items.forEach((text, at) => say(text, words[at]));
  parts.svg.setAttribute("aria-label", `${title}: ${words.join(", ")}; at most ${format(Math.max(0, ...tops))}`);
}

/* The next of 1, 2, 5, 10 …, or of 1, 2, 4, 8 … bytes: an axis that does not jump with every value. */
function round(value, binary) {
  if (!(value > 0)) return 1;
  if (binary) return 2 ** Math.ceil(Math.log2(value * 0.999));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

/* Whether a line goes on from the period before: none is missing in between. */
const follows = (before, period) => before && period.unix_secs - before.unix_secs <= period.length_ms / 1000 + 1.5;

function lines(all, values, series, x, y) {
  return series.map((each, at) => {
    let path = "", open = false;
    all.forEach((period, row) => {
      const value = values[row][at];
      if (value === null) { open = false; return; }
      const start = !open || !follows(all[row - 1], period);
      path += `${start ? "M" : "L"}${x(period.unix_secs).toFixed(1)} ${y(value).toFixed(1)}`;
      if (start) path += "h.5";
      open = true;
    });
    return draw("path", { class: each.color, d: path });
  });
}

function areas(all, values, series, x, y) {
  const floor = all.map(() => 0);
  return series.map((each, at) => {
    let path = "";
    all.forEach((period, row) => {
      const value = values[row][at];
      if (value) {
        const from = x(period.unix_secs - period.length_ms / 1000), to = x(period.unix_secs) + 0.3;
        const low = y(floor[row]), high = y(floor[row] + value);
        path += `M${from.toFixed(1)} ${low.toFixed(1)}V${high.toFixed(1)}H${to.toFixed(1)}V${low.toFixed(1)}Z`;
        floor[row] += value;
      }
    });
    return draw("path", { class: each.color, d: path });
  });
}

function showCharts() {
  const per = (of) => (period) => of(period) / period.length_ms * 1000;
  chart("requests", "Requests per second", [
    { name: "2xx", color: "f-c2", of: per((p) => p.classes[0] + p.classes[1]) },
    { name: "3xx", color: "f-c3", of: per((p) => p.classes[2]) },
    { name: "4xx", color: "f-c4", of: per((p) => p.classes[3]) },
    { name: "5xx", color: "f-c5", of: per((p) => p.classes[4]) },
  ], number, { stacked: true });
  chart("times", "Time to answer", [
    { name: "p50", color: "s-a", of: (p) => p.p50_us },
    { name: "p95", color: "s-b", of: (p) => p.p95_us },
    { name: "p99", color: "s-c", of: (p) => p.p99_us },
  ], time);
  chart("bytes", "Bytes per second", [
    { name: "sent", color: "s-a", of: per((p) => p.sent_bytes) },
    { name: "received", color: "s-b", of: per((p) => p.received_bytes) },
  ], bytes, { least: 1024 });
  chart("connections", "Connections", [
    { name: "open", color: "s-a", of: (p) => p.connections },
    { name: "new per second", color: "s-b", of: per((p) => p.accepted) },
  ], number);
  chart("cpu", "CPU of the worker, in CPUs", [
    { name: "CPUs", color: "s-a", of: (p) => p.cpu_us / 1000 / p.length_ms },
  ], number, { least: 1 });
  chart("memory", "Memory of the worker", [
    { name: "resident", color: "s-a", of: (p) => p.memory_bytes },
  ], bytes, { least: 1 << 20 });
}

/* Tables: rows stay where they are, so that a button keeps the focus. */

const tables = new Map();

function table(key, title, columns, rows, empty) {
  let parts = tables.get(key);
  if (!parts) {
    // Of the width of two: there are many columns, and buttons at their end.
    const wide = key.startsWith("upstream ") || ["php", "flights", "findings"].includes(key);
    parts = { box: make("section", { class: wide ? "card wide" : "card" }), rows: new Map(), body: make("tbody"), note: make("p", { class: "note" }) };
    const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col", class: LONG.includes(name) && "long" }, name)));
    const grid = make("table", { "aria-label": title }, make("thead", {}, head), parts.body);
    parts.scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, grid);
    parts.box.append(make("h2", {}, title), parts.note, parts.scroll);
    document.getElementById("tables").append(parts.box);
    tables.set(key, parts);
  }
  say(parts.note, rows.length ? "" : empty || "");
  parts.note.hidden = rows.length > 0;
  parts.scroll.hidden = rows.length === 0;
  const wanted = new Set(rows.map((row) => row.key));
  for (const [name, row] of parts.rows) if (!wanted.has(name)) { row.element.remove(); parts.rows.delete(name); }
  rows.forEach((row, at) => {
    let known = parts.rows.get(row.key);
    if (!known) {
      known = { element: make("tr"), cells: row.cells.map((_, column) => make("td", { "data-label": columns[column] })) };
      known.element.append(...known.cells);
      if (row.actions) known.element.append(make("td", { "data-label": "Change" }, ...row.actions.map((each) => each.button)));
      parts.rows.set(row.key, known);
    }
    row.cells.forEach((cell, column) => {
      const [text, kind] = Array.isArray(cell) ? cell : [cell, ""];
      say(known.cells[column], text);
      if (known.cells[column].className !== kind) known.cells[column].className = kind;
    });
    if (row.update) row.update(known.element);
    if (parts.body.children[at] !== known.element) parts.body.insertBefore(known.element, parts.body.children[at] || null);
  });
}

function hide(key, rows) {
  const parts = tables.get(key);
  if (parts) parts.box.hidden = rows.length === 0;
}

/* A table that is shown only where there is something for it. */
function shown(key, title, columns, rows) {
  if (rows.length || tables.has(key)) table(key, title, columns, rows);
  hide(key, rows);
}

/* The groups of a kind: "upstream" for http, "stream". */
function groups(kind) {
  const { balance } = state.data.own;
  return kind === "stream" ? balance.stream || {} : balance;
}

/* Gives the tables that it has shown. */
function showBackEnds(kind) {
  const { upstreams, servers } = groups(kind);
  return Object.entries(upstreams || {}).map(([name, upstream]) => {
    const list = servers[name] || [];
    const rows = upstream.peers.map((peer) => {
      const key = kind + " " + name + "/" + peer.id;
      const server = list.find((each) => each.id === peer.id);
      const failures = (count) => [number(count), count ? "bad" : ""];
      const mood = peer.state === "up" ? "good" : peer.state === "draining" ? "warn" : "bad";
      return {
        key,
        cells: [
          peer.server + (peer.backup ? " (backup)" : ""), [peer.state, mood], number(peer.weight), number(peer.active),
          number(rate(key + " requests", kind === "stream" ? peer.connections : peer.requests)),
          // Not added up: an answer with 5xx is a failed attempt as well where proxy_next_upstream names it.
          ...(kind === "stream" ? [] : [failures(peer.responses["5xx"])]), failures(peer.fails),
          peer.response_time === undefined ? "–" : peer.response_time + " ms", bytes(peer.received),
        ],
        actions: state.data.own.write && server && server.parent === undefined ? actions(kind, name, server) : null,
        update: (row) => describe(row, server),
      };
    });
    const own = kind === "stream" ? ["Sessions/s", "Failed"] : ["Requests/s", "5xx", "Failed"];
    const columns = ["Server", "State", "Weight", "Active", ...own, "Time", "Received"];
    const queue = upstream.queue ? `, ${upstream.queue.size} of ${upstream.queue.max_size} wait` : "";
    const title = kind === "stream" ? `Back ends of stream: ${name}` : `Back ends: ${name}${queue}`;
    const key = `upstream ${kind} ${name}`;
    table(key, title, state.data.own.write ? [...columns, "Change"] : columns, rows);
    say(tables.get(key).box.querySelector("h2"), title);
    return key;
  });
}

/* Those that a reload has taken away would stay as they were. */
function showAllBackEnds() {
  const present = [...showBackEnds("upstream"), ...showBackEnds("stream")];
  for (const [key, parts] of tables) {
    if (!key.startsWith("upstream ") || present.includes(key)) continue;
    parts.box.remove();
    tables.delete(key);
  }
}

/* The buttons say what they would do now. */
function describe(row, server) {
  const [drain, down] = row.querySelectorAll("button");
  if (!server || !down) return;
  say(drain, server.drain ? "Undrain" : "Drain");
  say(down, server.down ? "Enable" : "Disable");
}

function actions(kind, upstream, server) {
  const present = () => (groups(kind).servers[upstream] || []).find((each) => each.id === server.id) || server;
  const label = (what) => `${what} ${server.server} of ${upstream}`;
  const button = (what, run) => ({ button: make("button", { type: "button", title: label(what), onclick: run }, what) });
  return [
    button("Drain", () => change(kind, upstream, server, { drain: !present().drain })),
    button("Disable", () => change(kind, upstream, server, { down: !present().down })),
    button("Weight", () => {
      const answer = prompt(`Weight of ${server.server} in ${upstream} (1 to 65535)`, present().weight);
      const weight = Number(answer);
      if (answer !== null && Number.isInteger(weight) && weight > 0 && weight < 65536) change(kind, upstream, server, { weight });
      else if (answer !== null) complain("A weight is a whole number from 1 to 65535.");
    }),
  ];
}

async function change(kind, upstream, server, what) {
  const url = `${PAGE}?${kind}=${encodeURIComponent(upstream)}&server=${server.id}`;
  try {
    const response = await ask(url, { method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify(what) });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    state.toldUntil = 0;
  } catch (error) {
    complain(`${server.server} was not changed: ${reason(error)}.`);
    return;
  }
  // The loop tells if this fails.
  await look().catch(() => {});
}

function showStreams() {
  const rows = family("brisk_stream_active").map(({ labels, value }) => {
    const of = (what, more) => total("brisk_stream_" + what, { ...labels, ...more });
    const name = [labels.listen, labels.server].filter(Boolean).join(" ");
    const failed = of("sessions_total", { status: "5xx" });
    return {
      key: name,
      cells: [name, number(value), number(rate("stream " + name, of("connections_total"))), number(of("sessions_total", { status: "4xx" })),
        [number(failed), failed ? "bad" : ""], bytes(of("received_bytes_total")), bytes(of("sent_bytes_total"))],
    };
  });
  shown("streams", "Servers of stream", ["Server", "Active", "Sessions/s", "4xx", "5xx", "Received", "Sent"], rows);
}

function showTops() {
  const rows = (list) => list.map((each) => ({
    key: each.name,
    cells: [each.name, number(each.requests), [number(each.errors), each.errors ? "bad" : ""],
      time(each.time_us / Math.max(each.requests, 1)), time(each.time_us), bytes(each.sent_bytes)],
  }));
  const columns = (name) => [name, "Requests", "Failed", "Time each", "Time in all", "Sent"];
  const { urls, clients } = state.data.own.tops;
  const empty = "Counting began when you opened this page; nothing has come since.";
  table("urls", "Costliest URLs of the last minute", columns("URL"), rows(urls), empty);
  table("clients", "Costliest clients of the last minute", columns("Client"), rows(clients), empty);
}

/* What the doctor finds in this configuration, and what the tuner found last. */
function showFindings() {
  const { audit, count, tuned } = state.data.own.findings || { audit: [], count: 0, tuned: null };
  const kinds = { danger: "bad", large: "warn" };
  const rows = audit.map((each) => ({
    key: each.slug,
    cells: [`${each.slug}: ${each.why}`, [each.weight, kinds[each.weight] || ""],
      [each.seen.join("; ") + (each.places > each.seen.length ? ` and ${each.places - each.seen.length} more` : ""), "long"], [each.line, "long"]],
  }));
  shown("findings", `What "brisk doctor" finds in this configuration (${count})`, ["Finding", "Weight", "Where", "Write"], rows);
  const lines = tuned ? tuned.lines.map((line, at) => ({ key: at + line, cells: [line] })) : [];
  const when = tuned ? new Date(tuned.unix_secs * 1000).toLocaleString() : "";
  shown("tuned", "The tuner's last report", ["Step"], lines);
  if (tuned) say(tables.get("tuned").box.querySelector("h2"), `The tuner's last report, ${when}${tuned.is_applied ? ", applied" : ""}`);
}

/* What waits now, the oldest first. A row has no name of its own: its place is its key. */
function showFlights() {
  const { total, list, silent_threads } = state.data.own.flights;
  const rows = list.map((each, at) => {
    const kind = each.phase === "tunnel" ? "" : each.age_us > 1e7 ? "bad" : each.age_us > 1e6 ? "warn" : "";
    const name = each.method ? `${each.method} ${each.host}${each.path}` : "(not known yet)";
    return { key: at, cells: [name, each.phase, [time(each.age_us), kind], each.client, [each.upstream || "–", "long"]] };
  });
  const more = total > list.length ? `, ${list.length} of ${number(total)}` : "";
  const silent = silent_threads.length ? `; thread ${silent_threads.join(", ")} did not answer` : "";
  table("flights", "Slowest requests in flight", ["Request", "Waits for", "Age", "Client", "Back end"], rows, "No request waits.");
  say(tables.get("flights").box.querySelector("h2"), `Slowest requests in flight${more}${silent}`);
}

function showPools() {
  const pools = Object.entries(state.data.own.balance.php || {});
  const by = (name, family_name) => total(family_name, { pool: name });
  const rows = pools.map(([name]) => ({
    key: name,
    cells: [name, number(by(name, "brisk_php_workers")), number(by(name, "brisk_php_workers_idle")),
      [number(by(name, "brisk_php_queue")), by(name, "brisk_php_queue") ? "warn" : ""],
      number(rate("php " + name, by(name, "brisk_php_requests_total"))),
      [number(by(name, "brisk_php_refused_total") + by(name, "brisk_php_timeouts_total")), ""],
      [number(by(name, "brisk_php_crashes_total")), by(name, "brisk_php_crashes_total") ? "bad" : ""],
      bytes(by(name, "brisk_php_worker_bytes")), bytes(by(name, "brisk_php_worker_bytes") * by(name, "brisk_php_workers"))],
  }));
  shown("php", "PHP pools", ["Pool", "Workers", "Idle", "Queue", "Requests/s", "Refused", "Crashes", "Memory each", "In all"], rows);
}

function showCaches() {
  const rows = family("brisk_cache_entries").map(({ labels, value }) => {
    const name = Object.values(labels)[0];
    const of = (what) => total(what, labels);
    const hits = of("brisk_cache_hits_total"), misses = of("brisk_cache_misses_total");
    return {
      key: name,
      cells: [name, percent(hits / (hits + misses)), number(rate("cache " + name, hits + misses)), number(value),
        bytes(of("brisk_cache_memory_bytes") + of("brisk_cache_index_bytes")), bytes(of("brisk_cache_disk_bytes")), number(of("brisk_cache_evicted_total"))],
    };
  });
  shown("caches", "Caches", ["Cache", "Hits", "Look-ups/s", "Entries", "Memory", "Disk", "Evicted"], rows);
}

function showLimits() {
  const rows = ["brisk_limit_req_requests_total", "brisk_limit_conn_requests_total", "brisk_overload_refused_total"].flatMap((name) =>
    // Overload is counted where nothing limits it, too.
    family(name).filter(({ labels, value }) => value > 0 || (labels.zone && !labels.outcome.endsWith("dry_run"))).map(({ labels, value }) => {
      const key = name.replace(/^brisk_|_requests_total$|_refused_total$/g, "") + " " + Object.values(labels).join(" ");
      return { key, cells: [key, number(value), number(rate(key, value))] };
    }));
  shown("limits", "Limits", ["Limit and outcome", "Requests", "Per second"], rows);
}

function showTls() {
  const rows = [["brisk_tls_handshakes_total", "with clients"], ["brisk_upstream_tls_handshakes_total", "with back ends"]].map(([name, who]) => {
    const of = (outcome) => total(name, { outcome });
    const done = of("full") + of("resumed");
    return { key: who, cells: [who, number(of("full")), number(of("resumed")), percent(of("resumed") / done), number(of("failed"))], done };
  }).filter((row) => row.done > 0);
  shown("tls", "TLS handshakes", ["Handshakes", "Full", "Resumed", "Resumed", "Failed"], rows);
}

function showCertificates() {
  const rows = family("brisk_tls_certificate_not_after_seconds").map(({ labels, value }) => {
    const days = Math.floor((value - state.data.own.now_ms / 1000) / 86400);
    const end = new Date(value * 1000).toISOString().slice(0, 10);
    return { key: labels.certificate, cells: [labels.certificate, end, [number(days), days < 7 ? "bad" : days < 21 ? "warn" : ""]], days };
  }).sort((a, b) => a.days - b.days);
  shown("certificates", "Certificates", ["File", "Ends", "Days left"], rows);
}

/* The last reload was refused: what is served is not what stands on the disk. */
function showRefusal() {
  const element = document.getElementById("refused");
  const [last] = family("brisk_configuration_reload_refused_seconds");
  const is_last = last && total("brisk_configuration_last_reload_successful") === 0;
  element.hidden = !is_last;
  if (!is_last) return;
  const when = new Date(last.value * 1000).toLocaleString();
  say(element, `The last reload was refused (${when}), and the configuration before stays live: ${last.labels.reason}`);
}

function showPrograms() {
  const column = (name) => (labels) => total(name, { program: labels.program });
  const starts = column("brisk_program_starts_total"), failures = column("brisk_program_failures_total");
  const since = column("brisk_program_since_seconds"), process = column("brisk_program_process");
  const rows = family("brisk_program_state").filter(({ value }) => value === 1).map(({ labels }) => {
    const kind = labels.state === "ready" ? "good" : labels.state === "waiting" ? "bad" : "warn";
    return {
      key: labels.program,
      cells: [labels.program, [labels.state, kind], time((state.data.own.now_ms / 1000 - since(labels)) * 1e6),
        process(labels) ? String(process(labels)) : "–", number(starts(labels)), [number(failures(labels)), failures(labels) ? "bad" : ""]],
    };
  });
  shown("programs", "Supervised programs", ["Program", "State", "Since", "Process", "Starts", "Failures"], rows);
}

function showPlaces() {
  const places = new Map();
  for (const { labels, count, sum: seconds } of family("brisk_http_request_duration_seconds")) {
    const name = `${labels.server || "(no name)"} ${labels.location || "/"}`;
    const place = places.get(name) || { requests: 0, errors: 0, seconds: 0 };
    place.requests += count;
    place.seconds += seconds;
    if (labels.status === "5xx") place.errors += count;
    places.set(name, place);
  }
  const rows = [...places].sort((a, b) => b[1].seconds - a[1].seconds).slice(0, 40).map(([name, place]) => ({
    key: name,
    cells: [name, number(place.requests), number(rate("place " + name, place.requests)), [number(place.errors), place.errors ? "bad" : ""],
      time(place.seconds * 1e6 / Math.max(place.requests, 1))],
  }));
  table("places", "Servers and locations", ["Location", "Requests", "Per second", "Failed", "Time each"], rows, "No request has ended yet.");
}

/* The loop */

function problem(text) {
  const element = document.getElementById("problem");
  say(element, text);
  element.hidden = !text;
}

/* About what somebody has done: it stays for a while, and not for ever. */
function complain(text) {
  state.toldUntil = Date.now() + TOLD_MS;
  problem(text);
}

const ask = (url, options) => fetch(url, { ...options, cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS_MAX) });
const reason = (error) => (error.name === "TimeoutError" ? `there was no answer within ${ANSWER_MS_MAX / 1000} s` : error.message);

function show() {
  const own = state.data.own;
  say(document.getElementById("about"), `${own.version}, configuration generation ${own.generation}, worker process ${own.pid}`);
  showRefusal();
  showTiles();
  showCharts();
  showFlights();
  showAllBackEnds();
  showStreams();
  showPools();
  showPrograms();
  showTops();
  showPlaces();
  showCaches();
  showLimits();
  showTls();
  showCertificates();
  showFindings();
}

async function look() {
  const last = state.seconds[state.seconds.length - 1];
  const response = await ask(last ? `${PAGE}?data&since=${last.unix_secs}` : `${PAGE}?data`);
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  take(await response.json());
  show();
}

async function loop() {
  if (!state.paused && !document.hidden) {
    try {
      await look();
      if (Date.now() >= state.toldUntil) problem("");
    } catch (error) {
      state.toldUntil = 0;
      problem(`No numbers: ${reason(error)}. Asked again each second; what is shown is of the last answer.`);
    }
  }
  setTimeout(loop, 1000);
}

function press(id, pressed) {
  document.getElementById(id).setAttribute("aria-pressed", String(pressed));
}

for (const [id, day] of [["minutes", false], ["day", true]]) {
  document.getElementById(id).addEventListener("click", () => {
    state.day = day;
    press("minutes", !day);
    press("day", day);
    if (state.data) showCharts();
  });
}
document.getElementById("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  press("pause", state.paused);
});
addEventListener("resize", () => { if (state.data) showCharts(); });
loop();
