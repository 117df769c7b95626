// The bank's page of accounts in Node: node bank.js CONFIG PORT. What it says is what examples/bank says, byte for byte.
// A process per CPU shares the port, and each keeps its connections to the database.
"use strict";

const cluster = require("node:cluster");
const crypto = require("node:crypto");
const fs = require("node:fs");
const http = require("node:http");
const os = require("node:os");
const mysql = require("mysql");

const [, , configFile, port] = process.argv;
const config = JSON.parse(fs.readFileSync(configFile, "utf8"));
const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#039;" };
const TRANSFERS = `SELECT t.made_at, t.source, t.target, t.cents, t.reason, a.id = t.source AS is_out
     FROM accounts a JOIN transfers t ON a.id IN (t.source, t.target)
     WHERE a.customer = ? ORDER BY t.id DESC LIMIT 20`;

const text = (value) => String(value).replace(/[&<>"']/g, (letter) => ESCAPES[letter]);
const signed = (what) => crypto.createHmac("sha256", config.secret).update(what);

function money(cents) {
    const whole = Math.abs(cents);
    return `${cents < 0 ? "−" : ""}${Math.floor(whole / 100)}.${String(whole % 100).padStart(2, "0")}`;
}

/** The claims of a token that the bank has made and that has not expired, or null. */
function claimsOf(token) {
    const parts = token.split(".");
    if (parts.length !== 3) return null;
    const wanted = signed(`${parts[0]}.${parts[1]}`).digest();
    const given = Buffer.from(parts[2], "base64url");
    if (given.length !== wanted.length || !crypto.timingSafeEqual(given, wanted)) return null;
    const claims = JSON.parse(Buffer.from(parts[1], "base64url").toString());
    return Number.isInteger(claims.sub) && claims.exp > Date.now() / 1000 ? claims : null;
}

function page(title, body) {
    return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title} – the bank</title>
<style>
    body { font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem }
    table { border-collapse: collapse; width: 100% }
    td, th { padding: .25rem .5rem; text-align: left; border-bottom: 1px solid #ccc }
    td.money { text-align: right; font-variant-numeric: tabular-nums }
    label { display: block; margin: .5rem 0 }
</style>
<h1>${title}</h1>
${body}`;
}

function accountPage(customer, accounts, transfers, form) {
    let owned = "";
    let options = "";
    let moved = "";
    for (const { id, title, cents } of accounts) {
        owned += `<tr><td>${id}<td>${text(title)}<td class="money">${money(cents)}`;
        options += `<option value="${id}">${text(title)}</option>`;
    }
    for (const one of transfers) {
        const amount = money(one.is_out ? -one.cents : one.cents);
        moved += `<tr><td>${text(one.made_at)}<td>${one.source} → ${one.target}<td>${text(one.reason)}`;
        moved += `<td class="money">${amount}`;
    }
    return page(text(`Accounts of ${customer.name}`), `<table><tr><th>Number<th>Account<th>Balance${owned}</table>
<h2>Latest transfers</h2>
<table><tr><th>When<th>Accounts<th>Reason<th>Amount${moved}</table>
<h2>Transfer</h2>
<form method="post" action="/transfer">
    <input type="hidden" name="form" value="${form}">
    <label>From <select name="from">${options}</select></label>
    <label>To account <input name="to" inputmode="numeric" required></label>
    <label>Amount <input name="amount" inputmode="decimal" placeholder="12.50" required></label>
    <label>Reason <input name="reason" maxlength="100"></label>
    <button>Transfer</button>
</form>
<form method="post" action="/logout"><button>Log out</button></form>`);
}

function serve() {
    const pool = mysql.createPool({
        socketPath: config.socket,
        user: config.user,
        password: config.password,
        database: config.database,
        charset: "utf8mb4",
        dateStrings: true,
        connectionLimit: config.connections,
    });
    const rows = (statement, value) =>
        new Promise((resolve, reject) =>
            pool.query(statement, [value], (error, found) => (error ? reject(error) : resolve(found))),
        );

    async function answer(request, response) {
        const token = /(?:^|; )token=([^;]*)/.exec(request.headers.cookie ?? "")?.[1] ?? "";
        const claims = claimsOf(token);
        if (request.method !== "GET" || request.url !== "/account" || claims === null) {
            response.writeHead(claims === null ? 403 : 404).end();
            return;
        }
        // One after the other, as the other languages ask.
        const [customer] = await rows("SELECT login, name FROM customers WHERE id = ?", claims.sub);
        const accounts = await rows("SELECT id, title, cents FROM accounts WHERE customer = ? ORDER BY id", claims.sub);
        const transfers = await rows(TRANSFERS, claims.sub);
        const form = signed(`form ${claims.jti}`).digest("hex");
        const body = accountPage(customer, accounts, transfers, form);
        response.writeHead(200, {
            "Content-Type": "text/html; charset=UTF-8",
            "Content-Length": Buffer.byteLength(body),
            "Cache-Control": "no-store",
        });
        response.end(body);
    }

    const server = http.createServer((request, response) => {
        answer(request, response).catch((error) => {
            console.error(error);
            response.writeHead(500).end();
        });
    });
    server.keepAliveTimeout = 60000;
    server.listen(Number(port), "127.0.0.1");
}

if (cluster.isPrimary) {
    for (let number = 0; number < os.cpus().length; number++) cluster.fork();
    // A process that ends takes the rest along: a figure of half a server would be a lie.
    cluster.on("exit", () => process.exit(1));
} else {
    serve();
}
